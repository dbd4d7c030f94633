"""`tierwise train sft`: the first half of a recipe."""

from __future__ import annotations

from train.commands.run import run


def main(argv: list[str]) -> int:
    """Run `tierwise train sft argv…`; as `tierwise train run`."""
    return run("sft", argv)
