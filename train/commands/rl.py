"""`tierwise train rl`: a recipe to its end."""

from __future__ import annotations

from train.commands.run import run


def main(argv: list[str]) -> int:
    """Run `tierwise train rl argv…`; as `tierwise train run`."""
    return run("rl", argv)
