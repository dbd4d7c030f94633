"""Sums too large for the head."""

from __future__ import annotations

import random
from typing import ClassVar, Final

from train.domains.base import Domain
from train.domains.tool_use.task import Reading, ToolDomain, ToolTask, calling, one_by_one
from train.domains.words import THINGS
from train.tools.calculator import decimal, evaluate


class CalculatorDomain(ToolDomain):
    """Bills, and what is left of a sum. A level is one more kind of thing and another digit."""

    name: ClassVar[str] = "tool_calculator"
    description: ClassVar[str] = "Reckon a bill with a calculator; the answer is the exact number."

    def draw(self, rng: random.Random, level: int) -> ToolTask:
        """As `ToolDomain.draw`."""
        things = rng.sample(THINGS, level + 1)
        counts = [rng.randrange(10 ** (level + 1), 10 ** (level + 2)) for _ in things]
        prices = [rng.randrange(100, 10 ** (level + 4)) for _ in things]
        expression = " + ".join(f"{count} * {price}" for count, price in zip(counts, prices, strict=True))
        bill = "; ".join(
            f"{count} of {thing} at {price} each"
            for thing, count, price in zip(things, counts, prices, strict=True)
        )
        prompt = f"A bill: {bill}."
        if rng.random() < 0.5:
            people = rng.randrange(11, 98)
            expression = f"({expression}) % {people}"
            asked = f"Shared evenly among {people} in whole units, how many units are left over?"
        else:
            paid = rng.randrange(10**6, 10**7)
            expression = f"{paid} - ({expression})"
            asked = f"There are {paid} in the till before it is paid. How many after (less than 0 if it is short)?"
        return ToolTask(
            prompt=f"{prompt} {asked} Answer with the number.",
            tools={"calculator": {}},
            turns=one_by_one(calling("calculator_evaluate", expression=expression)),
            answer=decimal(evaluate(expression)),
            reading=Reading.NUMBER,
        )


DOMAIN: Final[Domain] = CalculatorDomain()
