"""Requests that cannot always be met: then nothing is done, and the reason is told."""

from __future__ import annotations

import random
from typing import Any, ClassVar, Final

from train.domains.base import Domain
from train.domains.tool_use.shop import drawn_shop, got, placed
from train.domains.tool_use.task import ToolDomain, ToolTask, one_by_one


class DeclineDomain(ToolDomain):
    """All or nothing: several products in one request, of which one may be short. A level is one product more."""

    name: ClassVar[str] = "tool_decline"
    description: ClassVar[str] = (
        "Order all of a list or, where one is short, nothing and say which and by how much."
    )

    def draw(self, rng: random.Random, level: int) -> ToolTask:
        """As `ToolDomain.draw`."""
        shop = drawn_shop(rng)
        user = int(rng.choice(list(shop["users"])))
        skus = rng.sample(list(shop["products"]), 1 + level)
        wanted = {sku: rng.randrange(2, shop["products"][sku]["stock"]) for sku in skus}
        short = rng.choice(skus) if rng.random() < 0.5 else ""
        if short:
            wanted[short] = shop["products"][short]["stock"] + rng.randrange(1, 10)
        asked = ", ".join(f"{num} of {sku}" for sku, num in wanted.items())
        last = max(map(int, shop["orders"])) + len(skus)
        lacking = wanted[short] - shop["products"][short]["stock"] if short else 0
        looks = [got(f"/products/{sku}") for sku in _until(skus, short)]
        orders = [] if short else [placed(user, sku, num) for sku, num in wanted.items()]
        return ToolTask(
            prompt=f"For user {user}, place an order each, in this order: {asked}. If the stock of any "
            "does not suffice, "
            "order nothing at all and answer with its name and how many pieces are lacking, such as "
            "kettle 3. Otherwise "
            "answer with ordered and the id of the last order, such as ordered 12.",
            tools={"service": shop},
            turns=one_by_one(*looks, *orders),
            answer=f"{short} {lacking}" if short else f"ordered {last}",
            ignored=("num_requests", "keys"),
        )


def _until(skus: list[str], last: str) -> list[Any]:
    """The products that must be looked at: all, or up to the one that is short."""
    return skus[: skus.index(last) + 1] if last else skus


DOMAIN: Final[Domain] = DeclineDomain()
