"""Reads the metadata at the head of a GGUF file, in milliseconds.

The `gguf` library builds an array for every tensor and parses the whole vocabulary first, which takes seconds; an
engine that starts wants a handful of numbers. Layout: ggml's docs/gguf.md, versions 2 and 3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final

from serving.engines.base import EngineError

_FIXED: Final = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"
}  # fmt: skip
_STRING: Final = 8
_ARRAY: Final = 9
_LONGEST_NAME: Final = 65_536  # bytes; the specification's limit
_VOCABULARY: Final = (
    "tokenizer.ggml.model",
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id",
)
_SHORT_ARRAY: Final = 4096  # items: one number a layer is kept, a vocabulary is skipped

Value = int | float | bool | str | list[int | float | bool]


def metadata(path: Path) -> Iterator[tuple[str, Value]]:
    """Key and value of each entry, in the file's order; long arrays and arrays of strings are skipped.

    Stop iterating once you have what you want: the vocabulary, which is most of it, usually comes last.

    Raises:
        EngineError: there is no such file, or it is not a (whole) GGUF file.
    """
    with _reading(path) as file:
        for key, kind in _keys(file):
            value = _value(file, kind)
            if value is not None:
                yield key, value


def vocabulary_sha256(path: Path) -> str:
    """The hash of what a model's token numbers mean: its kind of tokenizer, its tokens, and which begin and end a text.

    Raises:
        EngineError: as `metadata`.
    """
    found = dict.fromkeys(_VOCABULARY, b"")
    with _reading(path) as file:
        for key, kind in _keys(file):
            began = file.tell()
            _value(file, kind)
            if key in found:
                ended = file.tell()
                file.seek(began)
                found[key] = _exactly(file, ended - began)
    return sha256(b"".join(sha256(found[key]).digest() for key in _VOCABULARY)).hexdigest()


@contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("rb") as file:
            yield file
    except (OSError, struct.error, UnicodeDecodeError, _FormatError) as error:
        reason = error.strerror if isinstance(error, OSError) else (str(error) or "cut off")
        raise EngineError(
            f"{path} cannot be read as a GGUF model ({reason}): check the tier's `model`, and the copy in the registry "
            "with `tierwise registry verify`"
        ) from None


class _FormatError(Exception):
    pass


def _keys(file: BinaryIO) -> Iterator[tuple[str, int]]:
    """Each key with the type of its value, which must be read before the next is asked for."""
    if file.read(4) != b"GGUF":
        raise _FormatError("it does not begin with GGUF")
    version, _, num_entries = struct.unpack("<IQQ", _exactly(file, 20))
    if version not in {2, 3}:
        raise _FormatError(f"version {version}")
    for _ in range(num_entries):
        key = _string(file, _LONGEST_NAME)
        (kind,) = struct.unpack("<I", _exactly(file, 4))
        yield key, kind


def _value(file: BinaryIO, kind: int) -> Value | None:
    if kind == _STRING:
        return _string(file)
    if kind == _ARRAY:
        return _array(file)
    return _fixed(file, kind, 1)[0]


def _array(file: BinaryIO) -> Value | None:
    kind, length = struct.unpack("<IQ", _exactly(file, 12))
    if kind == _STRING:
        for _ in range(length):
            file.seek(struct.unpack("<Q", _exactly(file, 8))[0], 1)
        return None
    if length > _SHORT_ARRAY:
        file.seek(length * struct.calcsize(_layout(kind)), 1)
        return None
    return _fixed(file, kind, length)


def _fixed(file: BinaryIO, kind: int, count: int) -> list[int | float | bool]:
    layout = _layout(kind)
    return list(struct.unpack(f"<{count}{layout[1]}", _exactly(file, count * struct.calcsize(layout))))


def _layout(kind: int) -> str:
    if kind not in _FIXED:
        raise _FormatError(f"a value of the unknown type {kind}")
    return _FIXED[kind]


def _string(file: BinaryIO, limit: int = 1 << 24) -> str:
    (length,) = struct.unpack("<Q", _exactly(file, 8))
    if length > limit:
        raise _FormatError(f"a string of {length} bytes")
    return _exactly(file, length).decode()


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise _FormatError("it is cut off")
    return data
