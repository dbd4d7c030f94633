"""`tierwise distill`: make the same capability cheaper, and measure it. Sub-verbs are imported when called."""

from __future__ import annotations

from train.commands.sub_verbs import hand_over, overview

# sub-verb: (module with `main(argv) -> int`, one line for --help)
SUB_VERBS: dict[str, tuple[str, str]] = {
    "prune": ("distill.commands.prune", "leave out the layers whose going costs least"),
    "early-exit": ("distill.commands.early_exit", "train a model so that its first layers stand alone"),
    "student": (
        "distill.commands.student",
        "make a student: cut, taught by its teacher, then on its own answers",
    ),
    "quantize": ("distill.commands.quantize", "write a model in fewer bits, and say what each type costs"),
    "draft": ("distill.commands.draft", "train a draft head, or measure how often a draft is taken"),
    "cost-model": ("distill.commands.cost_model", "say whether a draft pays on this machine"),
    "evaluate": ("distill.commands.evaluate", "say what a candidate keeps of the full model"),
    "line-up": ("distill.commands.line_up", "hold several models against one another, in one table"),
    "publish": ("distill.commands.publish", "publish what passes the gate, or refuse"),
}


def help_text() -> str:
    """The text of `tierwise distill --help`."""
    return overview("distill", SUB_VERBS)


def main(argv: list[str]) -> int:
    """Run `tierwise distill argv…`."""
    return hand_over("distill", SUB_VERBS, argv, help_text())
