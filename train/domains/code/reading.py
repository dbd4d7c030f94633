"""Say what a program prints: assignments, then loops, then loops with branches, then lists built in nested ones.

The programs are ours and run here, when an item is made; what the policy says is compared as text.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from train.domains.base import Item, Verdict
from train.domains.task import Task, TaskDomain
from train.transcript import Transcript
from train.verifiers.answers import final_answer, judged, same


def _assignments(rng: random.Random) -> str:
    lines = [f"a = {rng.randint(2, 20)}", f"b = {rng.randint(2, 20)}"]
    for _ in range(rng.randint(2, 3)):
        target, one, other = rng.choice("ab"), rng.choice("ab"), rng.choice("ab")
        lines.append(f"{target} = {one} {rng.choice('+-*')} {other} {rng.choice('+-')} {rng.randint(1, 9)}")
    return "\n".join([*lines, f"print({rng.choice(('a', 'b', 'a - b', 'a + b'))})"])


def _loop(rng: random.Random) -> str:
    start, stop, step = rng.randint(0, 5), rng.randint(8, 14), rng.randint(1, 3)
    sign, factor = rng.choice(("+=", "-=")), rng.randint(1, 5)
    return "\n".join(
        (
            f"total = {rng.randint(0, 20)}",
            f"for i in range({start}, {stop}, {step}):",
            f"    total {sign} {rng.choice(('i', f'i * {factor}', f'i + {factor}', 'i * i'))}",
            "print(total)",
        )
    )


def _branches(rng: random.Random) -> str:
    test = rng.choice(
        (f"i % {rng.randint(2, 4)} == 0", f"i > {rng.randint(3, 6)}", f"total % {rng.randint(2, 4)} == 1")
    )
    return "\n".join(
        (
            f"total = {rng.randint(0, 9)}",
            f"for i in range({rng.randint(1, 3)}, {rng.randint(7, 11)}):",
            f"    if {test}:",
            f"        total += i * {rng.randint(1, 4)}",
            "    else:",
            f"        total -= {rng.randint(1, 5)}",
            "print(total)",
        )
    )


def _nested(rng: random.Random) -> str:
    values = [rng.randint(-5, 12) for _ in range(rng.randint(4, 6))]
    if rng.random() < 0.5:
        return "\n".join(
            (
                f"values = {values}",
                "kept = []",
                "for i, v in enumerate(values):",
                f"    if v % {rng.randint(2, 3)} == 0:",
                f"        kept.append(v + i * {rng.randint(1, 3)})",
                "    elif kept:",
                f"        kept[-1] {rng.choice(('+=', '-='))} v",
                "print(kept, sum(kept))",
            )
        )
    return "\n".join(
        (
            f"values = {values}",
            "count = 0",
            "for i in range(len(values)):",
            "    for j in range(i + 1, len(values)):",
            f"        if values[i] {rng.choice('<>')} values[j]{rng.choice(('', ' + 2', ' - 3'))}:",
            f"            count += {rng.choice(('1', 'j - i', 'values[i]'))}",
            "print(count, values[count % len(values)])",
        )
    )


_PROGRAMS: Final[tuple[Callable[[random.Random], str], ...]] = (_assignments, _loop, _branches, _nested)


def printed(program: str) -> str:
    """What a program of ours prints on its one line."""
    said: list[str] = []
    scope = {"print": lambda *values: said.append(" ".join(map(str, values)))}
    exec(compile(program, "<program>", "exec"), scope)  # noqa: S102  our own programs
    return "\n".join(said)


def _drawn(rng: random.Random, level: int) -> Task:
    program = _PROGRAMS[level](rng)
    return Task(
        f"What does this Python program print?\n{program}\nAnswer with the output only.", printed(program)
    )


def _judged(item: Item, transcript: Transcript) -> Verdict:
    said = final_answer(transcript.answer)
    is_right = same(said, item.answer)
    return judged(is_right, "" if is_right else f"{said[:60]!r} is not what it prints")


DOMAINS: Final = (TaskDomain("code_output", "Say what a program prints; compared as text.", _drawn, _judged),)
