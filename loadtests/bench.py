"""The verb `tierwise bench`: finds what to measure and hands over. A module is imported only when it is called."""

from __future__ import annotations

import difflib
import importlib
import signal
import sys
from collections.abc import Sequence
from types import FrameType

# sub-verb: (module with `main(argv) -> int`, one line for --help)
SUB_VERBS: dict[str, tuple[str, str]] = {
    "gateway": (
        "loadtests.gateway_bench",
        "what the gateway adds to each request, beside the same load without it",
    ),
    "disconnects": (
        "loadtests.disconnects",
        "whether clients that vanish at any moment leave something behind",
    ),
    "budget": (
        "loadtests.budget_bench",
        "whether a running gateway holds its share while requests become twice as hard",
    ),
    "frontier": (
        "loadtests.frontier_bench",
        "what routing brings on the real tiers, beside always one of them and a lot between them",
    ),
    "router": (
        "loadtests.router_bench",
        "how long the router takes to decide, and what of it is reading, model and policy",
    ),
    "engine": (
        "loadtests.engine_bench",
        "how fast an engine is on this machine, and which settings make it faster",
    ),
    "speculation": (
        "loadtests.speculation_bench",
        "which drafts make a model's answers come sooner, where, and whether they stay the same",
    ),
    "start": (
        "loadtests.fresh_start",
        "how long a fresh machine takes from `git clone` to its first answer",
    ),
}


def help_text() -> str:
    """The text of `tierwise bench --help`."""
    head = "usage: tierwise bench WHAT [options]      (tierwise bench WHAT --help tells more)\n\n"
    return head + "".join(f"  {verb:<13}{line}\n" for verb, (_, line) in SUB_VERBS.items())


def main(argv: Sequence[str]) -> int:
    """Run `tierwise bench argv…` and return the exit status: 0 done, 1 failed, 2 wrong use."""
    if not argv or argv[0] in {"-h", "--help"}:
        print(help_text(), end="")
        return 0
    verb, *rest = argv
    if verb not in SUB_VERBS:
        near = difflib.get_close_matches(verb, SUB_VERBS, n=1)
        hint = f"did you mean `{near[0]}`?" if near else "see `tierwise bench --help`"
        print(f"tierwise bench: cannot measure {verb!r}; {hint}", file=sys.stderr)
        return 2
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a background job, which SIGTERM has to end
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _as_interrupt)
    return int(importlib.import_module(SUB_VERBS[verb][0]).main(rest))


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    """End on SIGTERM as on Ctrl-C, so that every process started is ended too."""
    signal.raise_signal(signal.SIGINT)
