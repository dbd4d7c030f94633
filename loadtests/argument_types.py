"""Checked values for argparse: each is a `type=` whose refusal says what is wanted."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path


def count(text: str) -> int:
    """An integer of at least 1."""
    try:
        value = int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no integer") from None
    if value < 1:
        raise ArgumentTypeError(f"{text} is not at least 1")
    return value


def above_zero(text: str) -> float:
    """A number greater than 0."""
    value = _number(text)
    if not value > 0:
        raise ArgumentTypeError(f"{text} is not above 0")
    return value


def not_negative(text: str) -> float:
    """A number of at least 0."""
    value = _number(text)
    if not value >= 0:
        raise ArgumentTypeError(f"{text} is not at least 0")
    return value


def share(text: str) -> float:
    """A number in [0, 1]."""
    value = _number(text)
    if not 0 <= value <= 1:
        raise ArgumentTypeError(f"{text} is not in [0, 1]")
    return value


def secret_file(text: str) -> str:
    """What stands in the file of that name: a secret named on the command line itself would show in `ps`."""
    try:
        return Path(text).read_text().strip()
    except OSError as error:
        raise ArgumentTypeError(f"cannot read {text}: {error.strerror}") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no number") from None
