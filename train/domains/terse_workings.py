"""How the terse tasks are worked out: one line from a prompt and its answer, in easy steps."""

from __future__ import annotations

import re


def addition(prompt: str, answer: str) -> str:
    """Digit by digit from the right, the carry last: `2+9=11 1+3+1=5`."""
    one, other = re.findall(r"\d+", prompt)
    steps, carry = [], 0
    for place in range(max(len(one), len(other))):
        parts = [digit for digit in (_digit(one, place), _digit(other, place)) if digit is not None]
        total = sum(parts) + carry
        steps.append("+".join(map(str, [*parts, *([carry] if carry else [])])) + f"={total}")
        carry = total // 10
    return " ".join(steps)


def subtraction(prompt: str, answer: str) -> str:
    """Digit by digit from the right, the smaller from the larger, ten borrowed where needed: `12-9=3 2-1=1`."""
    one, other = sorted(map(int, re.findall(r"\d+", prompt)), reverse=True)
    steps, borrowed = [], 0
    for place in range(len(str(one))):
        upper = (_digit(str(one), place) or 0) - borrowed
        lower = _digit(str(other), place) or 0
        borrowed = int(upper < lower)
        upper += 10 * borrowed
        steps.append(f"{upper}-{lower}={upper - lower}")
    return " ".join(steps)


def numbering(prompt: str, answer: str) -> str:
    """The letters, numbered: `1c2a3b`."""
    return "".join(f"{place}{letter}" for place, letter in enumerate(_word(prompt), 1))


def sorting(prompt: str, answer: str) -> str:
    """How often each letter stands there, in alphabetical order: `a2c1`."""
    word = _word(prompt)
    return "".join(f"{letter}{word.count(letter)}" for letter in sorted(set(word)))


def counting(prompt: str, answer: str) -> str:
    """The row, with the count behind each hit: `ab1cb2`."""
    letter, seen = prompt.split()[1], 0
    told = ""
    for each in _word(prompt):
        seen += each == letter
        told += each + (str(seen) if each == letter else "")
    return told


def maximum(prompt: str, answer: str) -> str:
    """The greatest so far, number after number."""
    numbers = list(map(int, re.findall(r"\d+", prompt)))
    return " ".join(str(max(numbers[: place + 1])) for place in range(len(numbers)))


def remainder(prompt: str, answer: str) -> str:
    """The greatest multiple, and what is left: `7*5=35 38-35=3`."""
    number, divisor = map(int, re.findall(r"\d+", prompt))
    multiple = number - number % divisor
    return f"{divisor}*{number // divisor}={multiple} {number}-{multiple}={answer}"


def _digit(number: str, place: int) -> int | None:
    """From the right; None beyond its first."""
    return int(number[-1 - place]) if place < len(number) else None


def _word(prompt: str) -> str:
    return prompt.removesuffix(":").split()[-1]
