"""`tierwise distill`: make the same capability cheaper, and measure it. Sub-verbs are imported when called."""

from __future__ import annotations

import importlib
import sys
from difflib import get_close_matches

# sub-verb: (module with `main(argv) -> int`, one line for --help)
SUB_VERBS: dict[str, tuple[str, str]] = {
    "prune": ("distill.commands.prune", "leave out the layers whose going costs least"),
    "early-exit": ("distill.commands.early_exit", "train a model so that its first layers stand alone"),
    "draft": ("distill.commands.draft", "train a draft head, or measure how often a draft is taken"),
    "cost-model": ("distill.commands.cost_model", "say whether a draft pays on this machine"),
}


def help_text() -> str:
    """The text of `tierwise distill --help`."""
    lines = "".join(f"  {verb:<12}{line}\n" for verb, (_, line) in SUB_VERBS.items())
    return (
        "usage: tierwise distill SUB-VERB [options]   (tierwise distill SUB-VERB --help tells more)\n\n"
        f"{lines}"
    )


def main(argv: list[str]) -> int:
    """Run `tierwise distill argv…`."""
    if not argv or argv[0] in {"-h", "--help", "help"}:
        print(help_text(), end="")
        return 0 if argv else 2
    if argv[0] not in SUB_VERBS:
        near = get_close_matches(argv[0], SUB_VERBS, n=1)
        hint = f"did you mean `{near[0]}`?" if near else "see `tierwise distill --help`"
        print(f"tierwise distill: no sub-verb {argv[0]!r}; {hint}", file=sys.stderr)
        return 2
    return int(importlib.import_module(SUB_VERBS[argv[0]][0]).main(argv[1:]))
