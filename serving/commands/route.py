"""`tierwise route`: what the router thinks. A prompt is explained; the sub-verbs are imported when they are called."""

from __future__ import annotations

import importlib

# sub-verb: (module with `main(argv) -> int`, one line for --help)
SUB_VERBS: dict[str, tuple[str, str]] = {
    "collect": (
        "serving.commands.route_collect",
        "ask every arm prompts with known answers; write the outcomes",
    ),
    "escalation": (
        "serving.commands.route_escalation",
        "say whether holding doubtful answers back pays",
    ),
    "evaluate": (
        "serving.commands.route_evaluate",
        "say how good a difficulty model is on outcomes it has not seen",
    ),
    "explain": ("serving.commands.route_explain", "say which arm would answer a prompt, and why"),
    "fit": ("serving.commands.route_fit", "fit the difficulty model on outcomes; write or publish it"),
    "forecast": (
        "serving.commands.route_forecast",
        "say of every prompt in a file how likely each arm is to answer it rightly",
    ),
    "prompts": (
        "serving.commands.route_prompts",
        "write prompts as `collect` asks them into a file, to train on or to forecast",
    ),
    "refit": (
        "serving.commands.route_refit",
        "start the tiers, ask them, fit the router on them and publish it",
    ),
    "simulate": ("serving.commands.route_simulate", "see how a budget would be held, in virtual time"),
    "whatif": ("serving.commands.route_whatif", "say what another target would have cost, and lost"),
}


def help_text() -> str:
    """The text of `tierwise route --help`."""
    lines = "".join(f"  {verb:<12}{line}\n" for verb, (_, line) in SUB_VERBS.items())
    return (
        "usage: tierwise route PROMPT [options]\n"
        "       tierwise route SUB-VERB [options]   (tierwise route SUB-VERB --help tells more)\n\n"
        f"{lines}\n"
        "Without a sub-verb the prompt is explained:\n\n"
        '  tierwise route "Prove that the square root of 2 is irrational."\n'
    )


def main(argv: list[str]) -> int:
    """Run `tierwise route argv…`; what begins with no sub-verb is a prompt to explain."""
    if not argv or argv[0] in {"-h", "--help", "help"}:
        print(help_text(), end="")
        return 0 if argv else 2
    verb, rest = (argv[0], argv[1:]) if argv[0] in SUB_VERBS else ("explain", argv)
    return int(importlib.import_module(SUB_VERBS[verb][0]).main(rest))
