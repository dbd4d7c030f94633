"""A machine fails while a plan is under way: what is over or runs elsewhere stays, the rest is planned anew."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import ClassVar, Final

from train.domains.base import Domain
from train.domains.scheduling.dependencies import dependent_tasks
from train.domains.scheduling.planned import PlannedDomain, told_tasks
from train.domains.scheduling.shop import Placed, Shop, Task, in_turn, makespan


class InterruptionsDomain(PlannedDomain):
    """A level is two tasks more; there are three machines from level 1 on."""

    name: ClassVar[str] = "scheduling_interruptions"
    description: ClassVar[str] = (
        "Plan anew after a machine has failed; scored by the least time over the plan's."
    )

    def shop(self, rng: random.Random, level: int) -> tuple[str, Shop]:
        """As `PlannedDomain.shop`."""
        before = Shop(tasks=dependent_tasks(rng, 5 + 2 * level), num_machines=2 + (level > 0))
        plan = in_turn(before)
        machine, now = (
            rng.randrange(before.num_machines),
            rng.randrange(2, max(3, makespan(before, plan) // 2 + 1)),
        )
        after = _after(before, plan, machine, now)
        told = ", ".join(f"{name} on machine {on} at hour {start}" for name, (on, start) in plan.items())
        return (
            f"{told_tasks(before.tasks)} They were planned on {before.num_machines} machines: {told}. At "
            f"hour {now} machine "
            f"{machine} fails for good. What has ended by then, or has begun on another machine, stays as "
            "it is; what was "
            f"under way on machine {machine} must be done again from its beginning. Nothing else can begin "
            "before hour "
            f"{now}. Give a plan of all tasks that is over as early as can be.",
            after,
        )


def _after(before: Shop, plan: dict[str, Placed], machine: int, now: int) -> Shop:
    """The workshop with what stands and what can be chosen."""
    fixed = {
        name: (on, start)
        for name, (on, start) in plan.items()
        if start + before.tasks[name].hours <= now or (start < now and on != machine)
    }
    tasks: dict[str, Task] = {
        name: task if name in fixed else replace(task, earliest=now) for name, task in before.tasks.items()
    }
    return replace(before, tasks=tasks, fixed=fixed, broken=((machine, now),))


DOMAIN: Final[Domain] = InterruptionsDomain()
