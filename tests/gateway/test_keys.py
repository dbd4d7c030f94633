"""Tests of serving.gateway.keys."""

from __future__ import annotations

import json
import logging
import os
import re
import stat
import subprocess
import sys
import time
import timeit
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from serving.gateway.keys import KeyRecord, KeyStore, KeyStoreError

REPOSITORY = Path(__file__).parents[2]


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "keys.json"


def test_a_key_is_its_holders_and_no_other_text_is(path: Path) -> None:
    """The key that was made verifies; what differs from it in one place, or is none of ours, does not."""
    store = KeyStore(path, wall_clock=lambda: 1_000.0)
    key = store.create("app")
    assert re.fullmatch(r"tw-[A-Za-z0-9_-]{43}", key)
    record = store.verify(key)
    assert record is not None
    assert (record.name, record.created_at) == ("app", 1_000.0)
    for wrong in (
        "",
        key[:-1],
        key + "x",
        key.swapcase(),
        key[3:],
        "naïve",
        "\udc80",
        "\x00",
        "x" * 10_000_000,
    ):
        assert store.verify(wrong) is None


def test_files_are_for_the_owner_alone_and_hold_no_key(path: Path) -> None:
    """Mode 0600 whatever the umask; neither file holds a key; the hash means nothing without the pepper."""
    old = os.umask(0)
    try:
        keys = [KeyStore(path).create(name) for name in ("a", "b")]
    finally:
        os.umask(old)
    files = {file.name: file for file in path.parent.iterdir()}
    assert set(files) == {"keys.json", "keys.pepper", "keys.lock"}
    for name in ("keys.json", "keys.pepper"):
        assert stat.S_IMODE(files[name].stat().st_mode) == 0o600
    content = b"".join(file.read_bytes() for file in files.values()).decode(errors="replace")
    for key in keys:
        assert key not in content
        assert key.removeprefix("tw-") not in content
    assert len(files["keys.pepper"].read_bytes()) == 32

    copied = path.parent.parent / "other" / "keys.json"
    copied.parent.mkdir()
    copied.write_bytes(path.read_bytes())
    (copied.parent / "keys.pepper").write_bytes(b"another installation's pepper!!!")
    assert KeyStore(copied).verify(keys[0]) is None


def test_keys_made_and_revoked_elsewhere_count_within_a_second(path: Path) -> None:
    """A running gateway follows the file; it looks at it once a second, not at every request."""
    clock = Clock()
    running, other = KeyStore(path, monotonic=clock), KeyStore(path)
    assert running.verify("tw-anything") is None
    key = other.create("app")
    assert running.verify(key) is None
    clock.now_s += 1.0
    assert running.verify(key) is not None
    other.revoke("app")
    assert running.verify(key) is not None
    clock.now_s += 1.0
    assert running.verify(key) is None
    assert not running.has_any


def test_a_real_process_revokes_a_key_of_a_running_one(path: Path) -> None:
    """`tierwise keys revoke`, as a process, against a store with the real clock: refused within a second or so."""
    store = KeyStore(path)
    key = store.create("app")
    command = [sys.executable, "-m", "tierwise", "keys", "revoke", "app", "--home", str(path.parent)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    deadline = time.monotonic() + 1.5
    while store.verify(key) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_two_processes_that_create_at_once_lose_no_key(path: Path) -> None:
    """Every key of both verifies afterwards, under the one pepper that the first of them made."""
    program = (
        "import sys; from pathlib import Path; from serving.gateway.keys import KeyStore\n"
        "store = KeyStore(Path(sys.argv[1]))\n"
        "for number in range(20): print(store.create(f'{sys.argv[2]}{number}'))\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(path), name],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "ab"
    ]
    keys = {}
    for name, process in zip("ab", processes, strict=True):
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        keys |= {f"{name}{number}": key for number, key in enumerate(output.split())}
    store = KeyStore(path)
    assert len(store.records()) == len(keys) == 40
    for name, key in keys.items():
        record = store.verify(key)
        assert record is not None
        assert record.name == name


def test_a_crash_between_write_and_rename_leaves_the_old_keys(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is the old one or the new one; what the crash left behind is in nobody's way."""
    store = KeyStore(path)
    key = store.create("first")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("power cut")))
    with pytest.raises(KeyStoreError, match="power cut"):
        store.create("second")
    monkeypatch.undo()
    assert [record.name for record in KeyStore(path).records()] == ["first"]
    store.create("second")
    assert KeyStore(path).verify(key) is not None
    assert not list(path.parent.glob(".*"))


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "a\nb", "x" * 65, "ключ"])
def test_what_cannot_stand_in_a_log_cannot_name_a_key(path: Path, name: str) -> None:
    """Names go into logs, ledger and shell commands."""
    with pytest.raises(KeyStoreError, match="cannot name a key"):
        KeyStore(path).create(name)


def test_mistakes_are_said_with_their_remedy(path: Path) -> None:
    """A name that is taken, and one that nobody has."""
    store = KeyStore(path)
    store.create("app")
    with pytest.raises(KeyStoreError, match=r"there is a key named 'app'.*keys revoke app"):
        store.create("app")
    with pytest.raises(KeyStoreError, match=r"no key named 'apq'.*keys list"):
        store.revoke("apq")


def damage(path: Path) -> None:
    path.write_text("{")


def other_format(path: Path) -> None:
    path.write_text('{"format": 99, "keys": []}')


def lose_pepper(path: Path) -> None:
    path.with_name("keys.pepper").unlink()
    path.touch()


@pytest.mark.parametrize(
    ("harm", "message"),
    [(damage, "is damaged"), (other_format, "has format 99"), (lose_pepper, "keys.pepper is gone")],
)
def test_files_that_cannot_be_used_stop_changes_and_not_a_running_gateway(
    path: Path, harm: Callable[[Path], None], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The running gateway keeps the keys it has read and says so once; a new one, and every change, fails clearly."""
    clock = Clock()
    running = KeyStore(path, monotonic=clock)
    key = running.create("app")
    assert running.verify(key) is not None
    harm(path)
    for _ in range(3):
        clock.now_s += 1.0
        assert running.verify(key) is not None
    assert len(caplog.records) == 1
    assert message in caplog.text
    with pytest.raises(KeyStoreError, match=message):
        KeyStore(path).records()
    with pytest.raises(KeyStoreError, match=message):
        KeyStore(path).create("other")


def test_a_file_that_was_removed_revokes_all(path: Path) -> None:
    """Removing keys.json is a way to refuse everybody at once; keys made afterwards are good."""
    clock = Clock()
    running = KeyStore(path, monotonic=clock)
    key = running.create("app")
    path.unlink()
    clock.now_s += 1.0
    assert running.verify(key) is None
    assert running.verify(running.create("app")) is not None


def test_nothing_secret_shows_in_reprs_errors_and_logs(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the key, its digest nor the pepper."""
    caplog.set_level(logging.DEBUG)
    clock = Clock()
    store = KeyStore(path, monotonic=clock)
    key = store.create("app")
    record = store.verify(key)
    assert record is not None
    secrets = [key, record.digest, path.with_name("keys.pepper").read_bytes().hex()]
    with pytest.raises(KeyStoreError) as taken:
        store.create("app")
    store.verify(key + "x")
    path.write_text(json.dumps({"format": 1, "keys": [{"digest": record.digest, "surplus": key}]}))
    with pytest.raises(KeyStoreError) as damaged:
        store.records()
    clock.now_s += 1.0
    store.verify(key)
    assert "damaged" in caplog.text
    shown = (
        " ".join(map(repr, (store, record, taken.value, damaged.value, damaged.value.__cause__)))
        + caplog.text
    )
    assert not [secret for secret in secrets if secret in shown]


def test_verifying_takes_the_same_time_however_near_the_guess_and_many_the_keys(path: Path) -> None:
    """One hash and one look-up: a right key, a near one and a far one cost alike, with 1 key and with 5,000."""
    store = KeyStore(path)
    key = store.create("app")

    def cost_s(presented: str) -> float:
        return min(timeit.repeat(lambda: store.verify(presented), number=20, repeat=100)) / 20

    guesses = [key, key[:-1] + ("A" if key[-1] != "A" else "B"), "tw-" + "!" * 43]
    costs = [cost_s(guess) for guess in guesses]
    record = next(iter(store.records()))
    store._by_digest |= {f"{number:064x}": replace(record, name=str(number)) for number in range(5_000)}
    costs.append(cost_s(key))
    assert max(costs) < 3 * min(costs)
    assert max(costs) < 50e-6


def test_files_of_format_1_stay_readable(path: Path) -> None:
    """Bytes on disk and the hash over them, fixed, since installations depend on both."""
    path.parent.mkdir()
    path.with_name("keys.pepper").write_bytes(bytes(range(32)))
    digest = "af20fb903c0781a404835eb1820ce5956228d21fdb6fc3452f9fd1195b416303"
    path.write_text(json.dumps({"format": 1, "keys": [{"name": "app", "created_at": 5.0, "digest": digest}]}))
    record = KeyRecord(name="app", created_at=5.0, digest=digest)
    assert KeyStore(path).verify("tw-" + "A" * 43) == record
