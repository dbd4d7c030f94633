"""Scheduling: the solver against exhaustive search, rules one by one, and scores by hand."""

from __future__ import annotations

import json
import random
from itertools import product

import pytest

from train.domains import catalog
from train.domains.base import Family
from train.domains.scheduling.shop import Placed, Shop, Task, fault, in_turn, lateness, least, makespan
from train.transcript import answered

DOMAINS = catalog.by_family()[Family.SCHEDULING]


def drawn(rng: random.Random) -> Shop:
    names = "abc"
    tasks = {
        name: Task(
            hours=rng.randrange(1, 3),
            needs=tuple(rng.sample(names[:place], rng.randrange(min(2, place + 1)))),
            earliest=rng.randrange(2),
            due=rng.randrange(3),
            weight=rng.randrange(1, 4),
        )
        for place, name in enumerate(names)
    }
    return Shop(tasks=tasks, num_machines=2, broken=((1, rng.randrange(1, 6)),))


@pytest.mark.parametrize("cost", [makespan, lateness])
def test_the_solver_finds_what_exhaustive_search_finds(cost: type) -> None:
    """Over all plans of three tasks that break no rule, none is better than the solver's, and its own keeps them."""
    rng = random.Random(4)
    for _ in range(6):
        shop = drawn(rng)
        places = list(product(range(shop.num_machines), range(shop.horizon)))
        plans = (
            dict(zip(shop.tasks, chosen, strict=True)) for chosen in product(places, repeat=len(shop.tasks))
        )
        exhaustive = min(cost(shop, plan) for plan in plans if not fault(shop, plan))  # type: ignore[call-arg]
        best, plan = least(shop, cost)  # type: ignore[arg-type]
        assert best == exhaustive == cost(shop, plan)  # type: ignore[call-arg]
        assert not fault(shop, plan)


SHOP = Shop(
    tasks={"a": Task(hours=2), "b": Task(hours=3, needs=("a",)), "c": Task(hours=1, earliest=2)},
    num_machines=2,
    fixed={"a": (0, 0)},
    broken=((1, 5),),
)


@pytest.mark.parametrize(
    ("plan", "rule"),
    [
        ({"a": (0, 0), "b": (1, 2), "c": (0, 2)}, ""),
        ({"a": (0, 0), "b": (1, 2)}, "every task"),
        ({"a": (0, 0), "b": (1, 2), "c": (0, 2), "d": (0, 5)}, "every task"),
        ({"a": (0, 0), "b": (2, 2), "c": (0, 2)}, "no machine"),
        ({"a": (0, 0), "b": (-1, 2), "c": (0, 2)}, "no machine"),
        ({"a": (0, 0), "b": (0, 2), "c": (1, 1)}, "too early"),
        ({"a": (0, 0), "b": (0, 99), "c": (0, 2)}, "too late"),
        ({"a": (0, 1), "b": (0, 4), "c": (1, 2)}, "begun already"),
        ({"a": (0, 0), "b": (1, 3), "c": (0, 2)}, "broken"),
        ({"a": (0, 0), "b": (1, 1), "c": (0, 2)}, "before a has ended"),
        ({"a": (0, 0), "b": (0, 2), "c": (0, 4)}, "at once"),
    ],
)
def test_each_rule_is_kept(plan: dict[str, Placed], rule: str) -> None:
    """A plan that breaks one is told which."""
    assert rule in fault(SHOP, plan)
    assert bool(rule) == bool(fault(SHOP, plan))


def test_costs_by_hand() -> None:
    """The last end; hours past the due time by weight, early ones for nothing."""
    shop = Shop(
        tasks={"a": Task(hours=2, due=5, weight=9), "b": Task(hours=3, due=1, weight=2)}, num_machines=1
    )
    plan = {"a": (0, 0), "b": (0, 2)}
    assert makespan(shop, plan) == 5
    assert lateness(shop, plan) == 8
    assert in_turn(shop) == plan


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
def test_a_worse_plan_earns_the_optimum_over_its_cost(domain: object) -> None:
    """All tasks one hour later cost more, keep the rules where nothing stands fixed, and are no pass."""
    assert hasattr(domain, "item")
    found = catalog.get(domain.name)  # type: ignore[attr-defined]
    for level in range(3):
        item = found.item(4, 0, level)
        plan = json.loads(item.answer)
        best = found.verify(item, answered(item.answer))
        assert (best.score, best.parts) == (1.0, {"valid": 1.0, "cost": 1.0})
        later = {name: [machine, start + 1] for name, (machine, start) in plan.items()}
        worse = found.verify(item, answered(json.dumps(later)))
        assert not worse.passed
        assert worse.score < 1.0
        if found.name == "scheduling_dependencies":
            assert worse.score == pytest.approx(item.data["least"] / (item.data["least"] + 1))  # type: ignore[operator]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        "plan",
        '{"a": 1}',
        '{"a": [0]}',
        '{"a": [0, 0.5]}',
        '{"a": [true, 0]}',
        '{"a": ["0", 0]}',
    ],
)
def test_what_is_no_plan_is_worth_nothing(text: str) -> None:
    """Neither words nor other JSON."""
    for domain in DOMAINS:
        assert domain.verify(domain.item(4, 0, 0), answered(text)).score == 0.0


def test_a_failure_leaves_what_stands() -> None:
    """A plan for after the failure keeps what was begun elsewhere and puts nothing on the machine that is gone."""
    domain = catalog.get("scheduling_interruptions")
    for index in range(6):
        item = domain.item(4, index, 1)
        shop = item.data["shop"]
        plan = json.loads(item.answer)
        [[machine, now]] = shop["broken"]  # type: ignore[call-overload, index, misc]
        for name, (on, start) in plan.items():
            hours = shop["tasks"][name][0]  # type: ignore[call-overload, index]
            assert on != machine or start + hours <= now
            assert shop["fixed"].get(name, [on, start]) == [on, start]  # type: ignore[call-overload, index, union-attr]
            assert name in shop["fixed"] or start >= now  # type: ignore[call-overload, index, operator]
