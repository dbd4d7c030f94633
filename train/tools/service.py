"""A web shop behind HTTP, without HTTP: products, users and orders, status codes, idempotency, a rate limit.

Time passes only when asked to (`service_wait`). A request that is refused (4xx) changes nothing and counts for nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from train.tools.base import Operation, ToolError, ToolResult
from train.tools.wire import plain_copy, record, told
from train.transcript import JsonValue

WINDOW_S: Final = 10
"""The rate limit is so many requests since the last wait of at least this."""
DEFAULT_BURST: Final = 50

_ROUTES: Final = (
    ("GET", re.compile(r"/users/(\d+)"), "user"),
    ("GET", re.compile(r"/users/(\d+)/orders"), "orders_of"),
    ("GET", re.compile(r"/products"), "products"),
    ("GET", re.compile(r"/products/([a-z0-9-]+)"), "product"),
    ("GET", re.compile(r"/orders/(\d+)"), "order"),
    ("POST", re.compile(r"/orders"), "place"),
    ("PATCH", re.compile(r"/orders/(\d+)"), "amend"),
    ("DELETE", re.compile(r"/orders/(\d+)"), "cancel"),
)
_ID: Final[dict[str, JsonValue]] = {"type": "integer", "minimum": 1}
_QUANTITY: Final[dict[str, JsonValue]] = {"type": "integer", "minimum": 1, "maximum": 1_000}
_SKU: Final[dict[str, JsonValue]] = {"type": "string", "minLength": 1, "maxLength": 40}


class RefusedError(ToolError):
    """A status of 4xx."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status} {reason}")


@dataclass(slots=True)
class Service:
    """The shop."""

    users: dict[str, dict[str, Any]]
    """By id: `name` and `city`."""
    products: dict[str, dict[str, Any]]
    """By SKU: `price` in cents and `stock`."""
    orders: dict[str, dict[str, Any]]
    """By id: `user_id`, `sku`, `quantity`."""
    keys: dict[str, str]
    """Orders by the idempotency key that they were placed with."""
    max_burst: int
    num_requests: int
    """In this window."""
    name: ClassVar[str] = "service"
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation(
            "request",
            "Ask the shop. GET /users/{id}, /users/{id}/orders, /products, /products/{sku}, /orders/{id}; POST /orders "
            "with user_id, sku, quantity; PATCH /orders/{id} with quantity; DELETE /orders/{id}. A POST with an "
            "idempotency_key that was used before gives the order of then.",
            record(
                {
                    "method": {"type": "string", "enum": ["GET", "POST", "PATCH", "DELETE"]},
                    "path": {"type": "string", "minLength": 1, "maxLength": 100},
                },
                {
                    "body": record({}, {"user_id": _ID, "sku": _SKU, "quantity": _QUANTITY}),
                    "idempotency_key": {"type": "string", "minLength": 1, "maxLength": 60},
                },
            ),
            is_reading=False,
        ),
        Operation(
            "wait",
            f"Let time pass; {WINDOW_S} seconds end a rate limit.",
            record({"seconds": {"type": "integer", "minimum": 1, "maximum": 60}}),
            is_reading=False,
        ),
    )

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """As `Tool.from_state`."""
        parts = {name: plain_copy(state.get(name, {})) for name in ("users", "products", "orders", "keys")}
        return cls(
            **parts,
            max_burst=state.get("max_burst", DEFAULT_BURST),
            num_requests=state.get("num_requests", 0),
        )

    def apply(self, operation: str, arguments: Mapping[str, Any]) -> ToolResult:
        """As `Tool.apply`."""
        done: dict[str, Callable[..., ToolResult]] = {"request": self._request, "wait": self._wait}
        return done[operation](**arguments)

    def state(self) -> dict[str, JsonValue]:
        """As `Tool.state`."""
        return {
            "users": plain_copy(self.users),
            "products": plain_copy(self.products),
            "orders": plain_copy(self.orders),
            "keys": dict(self.keys),
            "max_burst": self.max_burst,
            "num_requests": self.num_requests,
        }

    def _wait(self, seconds: int) -> ToolResult:
        if seconds >= WINDOW_S:
            self.num_requests = 0
        return told(f"{seconds} seconds later")

    def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, idempotency_key: str = ""
    ) -> ToolResult:
        if self.num_requests >= self.max_burst:
            raise RefusedError(429, f"too many requests: wait {WINDOW_S} seconds")
        handler, places = _route(method, path)
        if handler == "place":
            status, value = self._place(body or {}, idempotency_key)
        elif handler == "amend":
            status, value = 200, self._amend(places[0], body or {})
        else:
            status, value = 200, self._looked_up(handler, *places)
        self.num_requests += 1
        return told(f"{status} {json.dumps(value, ensure_ascii=False)}")

    def _looked_up(self, handler: str, place: str = "") -> JsonValue:
        match handler:
            case "user":
                return {"id": int(place), **_held(self.users, place, "user")}
            case "product":
                return {"sku": place, **_held(self.products, place, "product")}
            case "products":
                return [{"sku": sku, **self.products[sku]} for sku in sorted(self.products)]
            case "orders_of":
                _held(self.users, place, "user")
                return [
                    {"id": int(id), **order}
                    for id, order in self.orders.items()
                    if str(order["user_id"]) == place
                ]
            case "cancel":
                order = _held(self.orders, place, "order")
                self.products[order["sku"]]["stock"] += order["quantity"]
                del self.orders[place]
                return {}
        return {"id": int(place), **_held(self.orders, place, "order")}

    def _place(self, body: Mapping[str, Any], key: str) -> tuple[int, JsonValue]:
        if key in self.keys:
            return 200, self._looked_up("order", self.keys[key])
        missing = [name for name in ("user_id", "sku", "quantity") if name not in body]
        if missing:
            raise RefusedError(400, f"the body lacks {missing[0]}")
        _held(self.users, str(body["user_id"]), "user", status=422)
        self._take(body["sku"], body["quantity"])
        id = str(1 + max(map(int, self.orders), default=0))
        self.orders[id] = dict(body)
        if key:
            self.keys[key] = id
        return 201, {"id": int(id), **body}

    def _amend(self, id: str, body: Mapping[str, Any]) -> JsonValue:
        order = _held(self.orders, id, "order")
        if set(body) != {"quantity"}:
            raise RefusedError(400, "only the quantity of an order can be changed, and it must be given")
        self._take(order["sku"], body["quantity"] - order["quantity"])
        order["quantity"] = body["quantity"]
        return {"id": int(id), **order}

    def _take(self, sku: str, quantity: int) -> None:
        product = _held(self.products, sku, "product", status=422)
        if quantity > product["stock"]:
            raise RefusedError(409, f"only {product['stock']} of {sku} are in stock")
        product["stock"] -= quantity


def _route(method: str, path: str) -> tuple[str, tuple[str, ...]]:
    matching = [
        (verb, name, found.groups()) for verb, shape, name in _ROUTES if (found := shape.fullmatch(path))
    ]
    for verb, name, places in matching:
        if verb == method:
            return name, places
    if matching:
        raise RefusedError(405, f"{method} is not for {path}; {', '.join(verb for verb, *_ in matching)} is")
    raise RefusedError(404, f"there is nothing at {path!r}")


def _held(entries: Mapping[str, Any], id: str, what: str, status: int = 404) -> dict[str, Any]:
    if id not in entries:
        raise RefusedError(status, f"there is no {what} {id}")
    held: dict[str, Any] = entries[id]
    return held
