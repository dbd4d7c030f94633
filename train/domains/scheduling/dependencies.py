"""Tasks that need each other, on few machines, to be over early."""

from __future__ import annotations

import random
from typing import ClassVar, Final

from train.domains.base import Domain
from train.domains.scheduling.planned import PlannedDomain, told_tasks
from train.domains.scheduling.shop import Shop, Task
from train.domains.words import made_up_words


class DependenciesDomain(PlannedDomain):
    """A level is two tasks more; there are three machines from level 2 on."""

    name: ClassVar[str] = "scheduling_dependencies"
    description: ClassVar[str] = "Plan tasks that need each other; scored by the least time over the plan's."

    def shop(self, rng: random.Random, level: int) -> tuple[str, Shop]:
        """As `PlannedDomain.shop`."""
        shop = Shop(tasks=dependent_tasks(rng, 4 + 2 * level), num_machines=2 + (level > 1))
        return (
            f"Plan these tasks on {shop.num_machines} machines so that all are done as early as can be. "
            f"{told_tasks(shop.tasks)}",
            shop,
        )


def dependent_tasks(rng: random.Random, num: int) -> dict[str, Task]:
    """Each needs up to two of those before it."""
    names = made_up_words(rng, num, 1 + (num > 8))
    return {
        name: Task(
            hours=rng.randrange(1, 8),
            needs=tuple(rng.sample(names[:place], min(place, rng.choice((0, 1, 1, 2))))),
        )
        for place, name in enumerate(names)
    }


DOMAIN: Final[Domain] = DependenciesDomain()
