"""What this machine lends to engines: cores and memory that this process may use, within cgroups; bfloat16 units."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BFLOAT16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
_NO_LIMIT_BYTES = 1 << 60  # cgroup v1 writes its "no limit" as a number near 2**63


@dataclass(frozen=True, slots=True)
class Machine:
    """Cores and memory free for use."""

    num_cores: int
    memory_bytes: int
    has_bfloat16: bool = False
    """Whether the cores multiply bfloat16 by themselves; without that float32 is faster."""


def this_machine(root: Path = Path("/")) -> Machine:
    """Affinity and CPU quota, available memory and its limit.

    A quota of 1.5 cores counts as one: a thread more would be stopped for a part of every period, and the others, which
    meet it at a barrier after every layer, would spin meanwhile.

    Args:
        root: where `proc` and `sys` are found; another one in tests.
    """
    groups = tuple(_cgroups(root))
    cores = min([_affinity(), *(quota for group in groups if (quota := _cpu_quota(group)) is not None)])
    memory = min(
        [_available_memory(root), *(left for group in groups if (left := _memory_left(group)) is not None)]
    )
    return Machine(
        num_cores=max(1, int(cores)), memory_bytes=max(0, memory), has_bfloat16=_has_bfloat16(root)
    )


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _available_memory(root: Path) -> int:
    """What the kernel thinks can be had without swapping; half of all memory where it does not say (macOS)."""
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _has_bfloat16(root: Path) -> bool:
    """By what Linux says of the first core; False where it says nothing (macOS)."""
    for line in _lines(root / "proc/cpuinfo"):
        name, _, value = line.partition(":")
        if name.strip() in {"flags", "Features"}:  # x86, ARM
            return not _BFLOAT16_FLAGS.isdisjoint(value.split())
    return False


def _cgroups(root: Path) -> Iterator[Path]:
    """Directories of this process's control groups, from the innermost out; v1's and v2's alike."""
    mount = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, name = line.split(":", 2)
        hierarchies = (
            [mount] if not controllers else [mount / controller for controller in controllers.split(",")]
        )
        for hierarchy in hierarchies:
            path = hierarchy / name.lstrip("/")
            while path != hierarchy:
                yield path
                path = path.parent
            yield hierarchy


def _cpu_quota(group: Path) -> float | None:
    if words := _words(group / "cpu.max"):  # v2: "150000 100000" or "max 100000"
        return None if words[0] == "max" else int(words[0]) / int(words[1])
    quota, period = _words(group / "cpu.cfs_quota_us"), _words(group / "cpu.cfs_period_us")
    if not quota or not period or int(quota[0]) <= 0:
        return None
    return int(quota[0]) / int(period[0])


def _memory_left(group: Path) -> int | None:
    for limit_name, usage_name in (
        ("memory.max", "memory.current"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        limit, usage = _words(group / limit_name), _words(group / usage_name)
        if limit and usage and limit[0] != "max" and int(limit[0]) < _NO_LIMIT_BYTES:
            return int(limit[0]) - int(usage[0]) + _reclaimable(group)
    return None


def _reclaimable(group: Path) -> int:
    """Page cache counts as usage, yet goes when memory is asked for."""
    for line in _lines(group / "memory.stat"):
        name, _, value = line.partition(" ")
        if name in {"inactive_file", "total_inactive_file"}:
            return int(value)
    return 0


def _words(path: Path) -> list[str]:
    return " ".join(_lines(path)).split()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []
