"""Errands in a web shop: orders, amendments, retries that must not double, and a rate limit."""

from __future__ import annotations

import random
from typing import Any, ClassVar, Final

from train.domains.base import Domain
from train.domains.tool_use.task import Reading, ToolDomain, ToolTask, calling, one_by_one
from train.domains.words import CITIES, THINGS, people
from train.tools.service import Service
from train.transcript import JsonValue, ToolCall


class ShopDomain(ToolDomain):
    """Level 0 orders the cheapest, 1 amends the largest order under a rate limit, 2 retries what may have been done."""

    name: ClassVar[str] = "tool_service"
    description: ClassVar[str] = (
        "Do errands through an HTTP-like service; checked by its orders and stock at the end."
    )

    def draw(self, rng: random.Random, level: int) -> ToolTask:
        """As `ToolDomain.draw`."""
        return (self._cheapest, self._amended, self._retried)[level](rng, drawn_shop(rng))

    def _cheapest(self, rng: random.Random, shop: dict[str, Any]) -> ToolTask:
        sku, user, num = cheapest(shop), int(rng.choice(list(shop["users"]))), rng.randrange(2, 6)
        return ToolTask(
            prompt=f"Order {num} pieces of the cheapest product for user {user}. Answer with the order's id.",
            tools={"service": shop},
            turns=one_by_one(got("/products"), placed(user, sku, num)),
            answer=str(1 + max(map(int, shop["orders"]))),
            reading=Reading.NUMBER,
            ignored=("num_requests", "keys"),
        )

    def _amended(self, rng: random.Random, shop: dict[str, Any]) -> ToolTask:
        user = rng.choice([order["user_id"] for order in shop["orders"].values()])
        orders = {id: order for id, order in shop["orders"].items() if order["user_id"] == user}
        id = max(orders, key=lambda id: (orders[id]["quantity"], -int(id)))
        more = rng.randrange(1, 5)
        quantity = orders[id]["quantity"] + more
        shop["max_burst"] = 2
        shop["num_requests"] = 1
        return ToolTask(
            prompt=f"Of user {user}'s orders, find the one of the most pieces (the lowest id if there are "
            "several) and add "
            f"{more} pieces to it. Answer with its id.",
            tools={"service": shop},
            turns=one_by_one(
                got(f"/users/{user}/orders"),
                calling("service_wait", seconds=10),
                calling("service_request", method="PATCH", path=f"/orders/{id}", body={"quantity": quantity}),
            ),
            answer=id,
            reading=Reading.NUMBER,
            ignored=("num_requests", "keys"),
        )

    def _retried(self, rng: random.Random, shop: dict[str, Any]) -> ToolTask:
        user, sku, num = (
            int(rng.choice(list(shop["users"]))),
            rng.choice(list(shop["products"])),
            rng.randrange(2, 6),
        )
        key = f"order-{rng.randrange(1000, 10_000)}"
        begun = Service.from_state(shop)
        if rng.random() < 0.5:
            begun.apply(
                "request",
                {"method": "POST", "path": "/orders", **_body(user, sku, num), "idempotency_key": key},
            )
        shop = {**begun.state(), "num_requests": 0}
        id = begun.keys.get(key) or str(1 + max(map(int, begun.orders)))
        gone = rng.choice([other for other in begun.orders if other != id])
        return ToolTask(
            prompt=f"The connection broke while {num} pieces of {sku} were being ordered for user {user} "
            "under the "
            f"idempotency key {key}. See to it that they are ordered exactly once. Then cancel order {gone}. "
            "Answer with the id of the order for the pieces.",
            tools={"service": shop},
            turns=one_by_one(
                placed(user, sku, num, idempotency_key=key),
                calling("service_request", method="DELETE", path=f"/orders/{gone}"),
            ),
            answer=id,
            reading=Reading.NUMBER,
            ignored=("num_requests",),
        )


def drawn_shop(rng: random.Random) -> dict[str, Any]:
    """Users, products of different prices, and some orders, which begin at a number of three digits."""
    names = people(rng, 4)
    skus = rng.sample(THINGS, 5)
    prices = rng.sample(range(100, 1000), len(skus))
    users = dict(zip(map(str, rng.sample(range(10, 100), 4)), names, strict=True))
    first = rng.randrange(100, 900)
    return {
        "users": {id: {"name": name, "city": rng.choice(CITIES)} for id, name in users.items()},
        "products": {
            sku: {"price": price, "stock": rng.randrange(10, 40)}
            for sku, price in zip(skus, prices, strict=True)
        },
        "orders": {
            str(first + place): {
                "user_id": int(rng.choice(list(users))),
                "sku": rng.choice(skus),
                "quantity": rng.randrange(1, 9),
            }
            for place in range(6)
        },
        "keys": {},
        "max_burst": 50,
        "num_requests": 0,
    }


def cheapest(shop: dict[str, Any]) -> str:
    """The SKU of the lowest price."""
    return min(map(str, shop["products"]), key=lambda sku: shop["products"][sku]["price"])


def got(path: str) -> ToolCall:
    """A GET."""
    return calling("service_request", method="GET", path=path)


def placed(user: int, sku: str, num: int, **more: JsonValue) -> ToolCall:
    """A POST of an order."""
    return calling("service_request", method="POST", path="/orders", **_body(user, sku, num), **more)


def _body(user: int, sku: str, num: int) -> dict[str, JsonValue]:
    return {"body": {"user_id": user, "sku": sku, "quantity": num}}


DOMAIN: Final[Domain] = ShopDomain()
