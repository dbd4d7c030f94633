"""Tasks with due times and weights, which cannot all be in time."""

from __future__ import annotations

import random
from typing import ClassVar, Final

from train.domains.base import Domain
from train.domains.scheduling.planned import PlannedDomain, told_tasks
from train.domains.scheduling.shop import Cost, Shop, Task, lateness
from train.domains.words import made_up_words


class PrioritiesDomain(PlannedDomain):
    """One machine; two, and times before which nothing can begin, at the last level. A level is a task more."""

    name: ClassVar[str] = "scheduling_priorities"
    description: ClassVar[str] = (
        "Plan tasks with due times; scored by the least weighted lateness over the plan's."
    )
    cost: ClassVar[Cost] = lateness

    def shop(self, rng: random.Random, level: int) -> tuple[str, Shop]:
        """As `PlannedDomain.shop`."""
        num, num_machines = 4 + level, 1 + (level > 1)
        hours = [rng.randrange(2, 8) for _ in range(num)]
        tasks = {
            name: Task(
                hours=each,
                earliest=rng.randrange(0, 5) if level > 0 else 0,
                due=rng.randrange(each, max(each + 1, sum(hours) // (1 + num_machines))),
                weight=rng.randrange(1, 6),
            )
            for name, each in zip(made_up_words(rng, num, 1), hours, strict=True)
        }
        shop = Shop(tasks=tasks, num_machines=num_machines)
        machines = "one machine, which is machine 0," if num_machines == 1 else f"{num_machines} machines"
        return (
            f"Plan these tasks on {machines} so that the cost is least: each hour past the due time costs "
            "the task's "
            f"weight. {told_tasks(tasks)}",
            shop,
        )


DOMAIN: Final[Domain] = PrioritiesDomain()
