"""What to do when the first thing fails, and the second."""

from __future__ import annotations

import random
from typing import ClassVar, Final

from train.domains.base import Domain
from train.domains.tool_use.shop import drawn_shop, got, placed
from train.domains.tool_use.task import ToolDomain, ToolTask, one_by_one


class FallbackDomain(ToolDomain):
    """A list of products, of which the first that there is enough of is ordered. A level is a failure more."""

    name: ClassVar[str] = "tool_fallback"
    description: ClassVar[str] = (
        "Try one product after another until an order succeeds; checked by the orders at the end."
    )

    def draw(self, rng: random.Random, level: int) -> ToolTask:
        """As `ToolDomain.draw`."""
        shop = drawn_shop(rng)
        user = int(rng.choice(list(shop["users"])))
        skus = rng.sample(list(shop["products"]), 3 + level if level < 2 else 5)
        num = rng.randrange(20, 40)
        chosen = rng.randrange(len(skus))
        for place, sku in enumerate(skus):
            shop["products"][sku]["stock"] = (
                rng.randrange(1, num) if place < chosen else num + rng.randrange(0, 20)
            )
        return ToolTask(
            prompt=f"Order {num} pieces of one product for user {user}: {', or else '.join(skus)}. Take "
            "the first that "
            "there is enough of. Answer with its name.",
            tools={"service": shop},
            turns=one_by_one(
                *(got(f"/products/{sku}") for sku in skus[: chosen + 1]), placed(user, skus[chosen], num)
            ),
            answer=skus[chosen],
            ignored=("num_requests", "keys"),
        )


DOMAIN: Final[Domain] = FallbackDomain()
