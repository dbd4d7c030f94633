"""What domains of scheduling share: a workshop is drawn, a plan read, its cost set against the optimum."""

from __future__ import annotations

import json
import random
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from train.domains.base import Family, Item, Verdict
from train.domains.drawn import DrawnDomain, Question
from train.domains.scheduling.shop import Cost, Placed, Shop, Task, fault, least, makespan
from train.transcript import JsonValue, Transcript
from train.verifiers.answers import json_value, judged

FORM: Final = (
    'Answer with JSON, for each task its machine and the hour that it begins, such as {"x": [0, 3], "y": [1, 0]}. '
    "Machines and hours are counted from 0. Each machine does one task at a time, without a break."
)


class PlannedDomain(DrawnDomain):
    """A plan that keeps all rules earns the least cost over its own."""

    family: ClassVar[Family] = Family.SCHEDULING
    num_levels: ClassVar[int] = 3
    cost: ClassVar[Cost] = makespan
    """What is to be small."""

    @abstractmethod
    def shop(self, rng: random.Random, level: int) -> tuple[str, Shop]:
        """What is to be planned, in words and as it is."""

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        while True:
            told, shop = self.shop(rng, level)
            best, plan = least(shop, type(self).cost)
            if best > 0:
                break
        return Question(
            prompt=f"{told} {FORM}",
            answer=json.dumps(plan),
            data={"shop": _plain(shop), "least": best},
        )

    def verify(self, item: Item, transcript: Transcript) -> Verdict:
        """`valid` is whether the plan keeps all rules."""
        shop = _read(item.data["shop"])
        plan = _plan(json_value(transcript.answer))
        wrong = fault(shop, plan) if plan is not None else "this is no plan"
        if wrong or plan is None:
            return judged(False, wrong)
        best: Any = item.data["least"]
        share = best / type(self).cost(shop, plan)
        return Verdict(
            score=share,
            passed=share == 1.0,
            parts={"valid": 1.0, "cost": share},
            evidence="" if share == 1.0 else f"it costs {1 / share:.2f} times what the best plan does",
        )


def told_tasks(tasks: Mapping[str, Task]) -> str:
    """In words, as far as it matters."""
    return " ".join(
        f"{name} takes {task.hours} h"
        + (f", after {' and '.join(task.needs)}" if task.needs else "")
        + (f", not before hour {task.earliest}" if task.earliest else "")
        + (f", due at hour {task.due}, weight {task.weight}" if task.weight else "")
        + "."
        for name, task in tasks.items()
    )


def _plain(shop: Shop) -> dict[str, JsonValue]:
    return {
        "tasks": {
            name: [task.hours, [*task.needs], task.earliest, task.due, task.weight]
            for name, task in shop.tasks.items()
        },
        "num_machines": shop.num_machines,
        "fixed": {name: [*placed] for name, placed in shop.fixed.items()},
        "broken": [[*each] for each in shop.broken],
    }


def _read(plain: Any) -> Shop:
    return Shop(
        tasks={
            name: Task(hours=hours, needs=tuple(needs), earliest=earliest, due=due, weight=weight)
            for name, (hours, needs, earliest, due, weight) in plain["tasks"].items()
        },
        num_machines=plain["num_machines"],
        fixed={name: (machine, start) for name, (machine, start) in plain["fixed"].items()},
        broken=tuple((machine, since) for machine, since in plain["broken"]),
    )


def _plan(said: JsonValue) -> dict[str, Placed] | None:
    if not isinstance(said, dict):
        return None
    plan: dict[str, Placed] = {}
    for name, placed in said.items():
        match placed:
            case [int(machine), int(start)] if not isinstance(machine, bool) and not isinstance(start, bool):
                plan[name] = (machine, start)
            case _:
                return None
    return plan
