"""`tierwise distill draft`: train a head that drafts for a target, export it, or measure how often drafts are taken."""

from __future__ import annotations

import argparse
import importlib
import sys
from difflib import get_close_matches

# action: (module with `main(argv) -> int`, one line for --help)
ACTIONS: dict[str, tuple[str, str]] = {
    "train": ("distill.commands.draft_train", "train a head after EAGLE-3, and export it for vLLM"),
    "export": ("distill.commands.draft_export", "write a trained head as GGUF, for llama.cpp"),
    "measure": ("distill.commands.draft_measure", "measure acceptance by domain and place of a round"),
}


def main(argv: list[str]) -> int:
    """Run `tierwise distill draft argv…`. 0 done, 1 failed, 2 for wrong use."""
    lines = "".join(f"  {action:<10}{line}\n" for action, (_, line) in ACTIONS.items())
    if not argv or argv[0] in {"-h", "--help", "help"}:
        print(
            "usage: tierwise distill draft ACTION [options]   (tierwise distill draft ACTION --help tells more)\n\n"
            f"{lines}",
            end="",
        )
        return 0 if argv else 2
    if argv[0] not in ACTIONS:
        near = get_close_matches(argv[0], ACTIONS, n=1)
        hint = f"did you mean `{near[0]}`?" if near else "see `tierwise distill draft --help`"
        print(f"tierwise distill draft: no action {argv[0]!r}; {hint}", file=sys.stderr)
        return 2
    return int(importlib.import_module(ACTIONS[argv[0]][0]).main(argv[1:]))


def new_action_parser(action: str, about: str, examples: str) -> argparse.ArgumentParser:
    """The parser of an action; both texts are shown as they are."""
    return argparse.ArgumentParser(
        prog=f"tierwise distill draft {action}",
        description=about,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
