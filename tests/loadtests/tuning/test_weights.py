"""Which weights were measured."""

from __future__ import annotations

import hashlib
from pathlib import Path

from loadtests.tuning.weights import weights_bytes, weights_sha256


def test_a_file_a_directory_and_neither(tmp_path: Path) -> None:
    """Several files are one after the other; what is elsewhere has no hash."""
    for name, content in {"b.safetensors": b"two", "a.safetensors": b"one", "config.json": b"{}"}.items():
        (tmp_path / name).write_bytes(content)
    assert weights_bytes(tmp_path) == 6
    assert weights_sha256(tmp_path) == hashlib.sha256(b"onetwo").hexdigest()
    assert weights_sha256(tmp_path / "b.safetensors") == hashlib.sha256(b"two").hexdigest()
    assert weights_sha256(tmp_path / "org/name") is None
    assert weights_bytes(tmp_path / "org/name") == 0
