"""What a machine lends: affinity, quotas and limits of control groups, the least of them all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from serving.engines.machine import this_machine

GIB = 1 << 30


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with eight cores and 16 GiB available."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    write(tmp_path, "proc/meminfo", f"MemTotal: 1 kB\nMemAvailable: {16 * GIB // 1024} kB\n")
    write(tmp_path, "proc/self/cgroup", "0::/\n")
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_limits(root: Path) -> None:
    """Every core of the affinity, and the memory that the kernel calls available."""
    machine = this_machine(root)
    assert (machine.num_cores, machine.memory_bytes) == (8, 16 * GIB)


@pytest.mark.parametrize(
    ("quota", "num_cores"),
    [("max 100000", 8), ("400000 100000", 4), ("150000 100000", 1), ("50000 100000", 1)],
)
def test_cpu_quota(root: Path, quota: str, num_cores: int) -> None:
    """A quota is rounded down, since a thread without a core would keep the others waiting; one is left at least."""
    write(root, "sys/fs/cgroup/cpu.max", quota)
    assert this_machine(root).num_cores == num_cores


def test_the_tightest_group_counts(root: Path) -> None:
    """Limits of the groups around this process's hold for it too."""
    write(root, "proc/self/cgroup", "0::/pod/engine\n")
    write(root, "sys/fs/cgroup/pod/engine/cpu.max", "max 100000")
    write(root, "sys/fs/cgroup/pod/cpu.max", "300000 100000")
    write(root, "sys/fs/cgroup/pod/engine/memory.max", str(8 * GIB))
    write(root, "sys/fs/cgroup/pod/engine/memory.current", str(GIB))
    write(root, "sys/fs/cgroup/pod/memory.max", str(4 * GIB))
    write(root, "sys/fs/cgroup/pod/memory.current", str(3 * GIB))
    machine = this_machine(root)
    assert (machine.num_cores, machine.memory_bytes) == (3, GIB)


def test_page_cache_is_not_lost(root: Path) -> None:
    """Pages of files count as used, but go when memory is asked for."""
    write(root, "sys/fs/cgroup/memory.max", str(4 * GIB))
    write(root, "sys/fs/cgroup/memory.current", str(3 * GIB))
    write(root, "sys/fs/cgroup/memory.stat", f"anon 5\ninactive_file {2 * GIB}\n")
    assert this_machine(root).memory_bytes == 3 * GIB


def test_version_1(root: Path) -> None:
    """The older interface says the same under other names; its "no limit" is a huge number, or -1."""
    write(root, "proc/self/cgroup", "4:memory:/box\n1:cpu,cpuacct:/box\n0::/\n")
    write(root, "sys/fs/cgroup/memory/box/memory.limit_in_bytes", str(2 * GIB))
    write(root, "sys/fs/cgroup/memory/box/memory.usage_in_bytes", str(GIB))
    write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712")
    write(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", str(GIB))
    write(root, "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "200000")
    write(root, "sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000")
    write(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1")
    write(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")
    machine = this_machine(root)
    assert (machine.num_cores, machine.memory_bytes) == (2, GIB)


def test_a_full_group(root: Path) -> None:
    """Memory over its limit is none, not less than none."""
    write(root, "sys/fs/cgroup/memory.max", str(GIB))
    write(root, "sys/fs/cgroup/memory.current", str(2 * GIB))
    assert this_machine(root).memory_bytes == 0


def test_this_very_machine() -> None:
    """Here, too, there is a core and some memory."""
    machine = this_machine()
    assert machine.num_cores >= 1
    assert machine.memory_bytes > 0


@pytest.mark.parametrize(
    ("said", "has_bfloat16"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx512f avx512_bf16\n", True),
        ("processor\t: 0\nflags\t\t: fpu avx2\n", False),
        ("processor\t: 0\nFeatures\t: fp asimd bf16\n", True),
        ("", False),
    ],
)
def test_units_for_bfloat16(root: Path, said: str, has_bfloat16: bool) -> None:
    """As Linux names them, on x86 and on ARM."""
    write(root, "proc/cpuinfo", said)
    assert this_machine(root).has_bfloat16 is has_bfloat16
