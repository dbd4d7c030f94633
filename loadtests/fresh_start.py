"""`tierwise bench start`: how long a fresh machine takes, from `git clone` to the first answer, and a second start.

It does what the README says, in an empty folder: clones, runs `make serve`, asks the question of the README's curl line
with a plain HTTP client, ends it with Ctrl-C, checks that no process is left, and starts it again. Packages and model
come over the network (pip's cache is turned off), so that the figure says as much about the network as about us.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loadtests.child_process import ChildError, child_process, log_tail
from loadtests.machine import this_machine

POLL_S = 0.05
END_TIMEOUT_S = 20.0
_URL = re.compile(r"tierwise serves on (http://\S+)/v1")
_QUESTION = {"model": "auto", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start, in seconds since its beginning."""

    ready_s: float
    """The banner with the URL was printed."""
    first_answer_s: float
    """A chat completion was answered whole."""
    end_s: float
    """From Ctrl-C to the end of the last process."""


def main(argv: Sequence[str]) -> int:
    """Run `tierwise bench start argv…`; 0 done, 1 where a start failed or left a process behind."""
    args = _parser().parse_args(argv)
    try:
        with tempfile.TemporaryDirectory(prefix="tierwise-start-") as name:
            first, second, clone_s = _measure(Path(name), args.timeout)
    except ChildError as error:
        print(f"tierwise bench start: {error}", file=sys.stderr)
        return 1
    if args.json:
        report = {
            "machine": dataclasses.asdict(this_machine()),
            "clone_s": clone_s,
            "first": dataclasses.asdict(first),
            "second": dataclasses.asdict(second),
        }
        print(json.dumps(report, indent=1))
    else:
        print(this_machine().line())
        print(
            f"clone → first answer        {clone_s + first.first_answer_s:7.1f} s   (clone {clone_s:.1f} s)"
        )
        print(f"second start → first answer {second.first_answer_s:7.1f} s")
        print(f"Ctrl-C → no process left    {second.end_s:7.1f} s")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tierwise bench start", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--timeout", type=float, default=900.0, metavar="S", help="for each start (default 900)"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    return parser


def _measure(place: Path, timeout_s: float) -> tuple[Start, Start, float]:
    source = Path(__file__).parent.parent
    began = time.monotonic()
    subprocess.run(["git", "clone", "--quiet", f"file://{source}", place / "clone"], check=True)
    clone_s = time.monotonic() - began
    return _start(place, "first", timeout_s), _start(place, "second", timeout_s), clone_s


def _start(place: Path, name: str, timeout_s: float) -> Start:
    log = place / f"{name}.log"
    settings = {f"TIERWISE_HOME={place / 'home'}", "PIP_NO_CACHE_DIR=1"}
    python = f"PYTHON={Path(sys.base_prefix) / 'bin' / 'python3'}"
    argv = ["env", *sorted(settings), "make", "-C", str(place / "clone"), "serve", python, "ARGS=--port 0"]
    began = time.monotonic()
    with child_process(argv, log=log) as child:
        url = _wait_for_url(child, log, began + timeout_s)
        ready_s = time.monotonic() - began
        _ask(url)
        first_answer_s = time.monotonic() - began
        end_s = _interrupt(child, log)
    return Start(ready_s=ready_s, first_answer_s=first_answer_s, end_s=end_s)


def _wait_for_url(child: subprocess.Popen[bytes], log: Path, give_up: float) -> str:
    while time.monotonic() < give_up:
        if match := _URL.search(log.read_text(errors="replace")):
            return match.group(1)
        if child.poll() is not None:
            raise ChildError(f"make serve ended with status {child.returncode}{log_tail(log)}")
        time.sleep(POLL_S)
    raise ChildError(f"make serve did not come up in time{log_tail(log)}")


def _ask(url: str) -> None:
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(_QUESTION).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        answer = json.load(response)
    if not answer["choices"][0]["message"]["content"]:
        raise ChildError(f"the first answer is empty: {answer}")


def _interrupt(child: subprocess.Popen[bytes], log: Path) -> float:
    """Press Ctrl-C: SIGINT to the terminal's process group, which is make, the gateway, and nothing else."""
    session = os.getsid(child.pid)
    descendants = _descendants(child.pid)
    began = time.monotonic()
    os.killpg(session, signal.SIGINT)
    while left := [pid for pid in descendants if Path(f"/proc/{pid}").exists()]:
        if time.monotonic() > began + END_TIMEOUT_S:
            raise ChildError(f"Ctrl-C left the processes {left} behind{log_tail(log)}")
        child.poll()
        time.sleep(POLL_S)
    return time.monotonic() - began


def _descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in _descendants(int(child)))]
