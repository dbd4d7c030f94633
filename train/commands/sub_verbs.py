"""How a verb with sub-verbs hands over: the sub-verb's module is imported only when it is called."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from difflib import get_close_matches

SubVerbs = Mapping[str, tuple[str, str]]
"""By name: a module with `main(argv) -> int`, and one line for --help."""


def overview(verb: str, sub_verbs: SubVerbs) -> str:
    """Usage, and a line for each sub-verb."""
    width = max(map(len, sub_verbs)) + 2
    lines = "".join(f"  {name:<{width}}{line}\n" for name, (_, line) in sub_verbs.items())
    return (
        f"usage: tierwise {verb} SUB-VERB [options]   (tierwise {verb} SUB-VERB --help tells more)\n\n{lines}"
    )


def hand_over(verb: str, sub_verbs: SubVerbs, argv: list[str], help_text: str) -> int:
    """Run `tierwise VERB argv…`; 2 for wrong use."""
    if not argv or argv[0] in {"-h", "--help", "help"}:
        print(help_text, end="")
        return 0 if argv else 2
    if argv[0] not in sub_verbs:
        near = get_close_matches(argv[0], sub_verbs, n=1)
        hint = f"did you mean `{near[0]}`?" if near else f"see `tierwise {verb} --help`"
        print(f"tierwise {verb}: no sub-verb {argv[0]!r}; {hint}", file=sys.stderr)
        return 2
    return int(importlib.import_module(sub_verbs[argv[0]][0]).main(argv[1:]))
