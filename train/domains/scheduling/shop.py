"""A workshop: tasks that need each other, machines that do one thing at a time; plans, rules and optimum.

A plan is JSON: `{"<task>": [<machine>, <start>], …}` with machines and times counted from 0. The solver runs with one
worker and a fixed seed, and to proven optimality, so the least cost is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, IntVar, LinearExprT

MAX_SOLVER_S: Final = 60.0
"""A guard; what generators draw is solved in milliseconds."""

Placed = tuple[int, int]
"""Machine and start."""


class NotOptimalError(RuntimeError):
    """The solver did not prove an optimum in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One piece of work; it is never interrupted."""

    hours: int
    needs: tuple[str, ...] = ()
    """Tasks that must have ended."""
    earliest: int = 0
    due: int = 0
    weight: int = 0
    """What an hour of lateness costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """What must be done, and with what."""

    tasks: Mapping[str, Task]
    num_machines: int
    fixed: Mapping[str, Placed] = field(default_factory=dict)
    """Tasks that stand where they are."""
    broken: tuple[tuple[int, int], ...] = ()
    """Machine and the hour from which it does nothing more."""

    @property
    def horizon(self) -> int:
        """An hour by which even a plan of one task at a time has ended; no plan may take longer."""
        latest = max([task.earliest for task in self.tasks.values()] + [since for _, since in self.broken])
        return latest + sum(task.hours for task in self.tasks.values())


Cost = Callable[[Shop, Mapping[str, Placed]], int]
"""`makespan` or `lateness`."""


def fault(shop: Shop, plan: Mapping[str, Placed]) -> str:
    """The first rule that a plan breaks; empty where it keeps all."""
    if plan.keys() != shop.tasks.keys():
        return "every task must be planned, once, and no other"
    ends = {name: start + shop.tasks[name].hours for name, (_, start) in plan.items()}
    for name, (machine, start) in plan.items():
        task = shop.tasks[name]
        if not (0 <= machine < shop.num_machines and task.earliest <= start and ends[name] <= shop.horizon):
            return f"{name} is on no machine, or begins too early, or ends too late"
        if name in shop.fixed and shop.fixed[name] != (machine, start):
            return f"{name} has begun already and cannot be moved"
        if any(machine == other and ends[name] > since for other, since in shop.broken):
            return f"machine {machine} is broken before {name} ends"
        for need in task.needs:
            if ends[need] > start:
                return f"{name} begins before {need} has ended"
        for other, (its_machine, its_start) in plan.items():
            if other != name and its_machine == machine and start < ends[other] and its_start < ends[name]:
                return f"machine {machine} does {name} and {other} at once"
    return ""


def makespan(shop: Shop, plan: Mapping[str, Placed]) -> int:
    """The hour at which the last task ends."""
    return max(start + shop.tasks[name].hours for name, (_, start) in plan.items())


def lateness(shop: Shop, plan: Mapping[str, Placed]) -> int:
    """Hours past the due time, times weight, over all tasks; who is early gains nothing."""
    return sum(
        shop.tasks[name].weight * max(0, start + shop.tasks[name].hours - shop.tasks[name].due)
        for name, (_, start) in plan.items()
    )


def in_turn(shop: Shop) -> dict[str, Placed]:
    """A plan that nobody took pains with: each task in turn, on the machine on which it can begin first."""
    free, ends = [0] * shop.num_machines, dict[str, int]()
    plan: dict[str, Placed] = {}
    for name, task in shop.tasks.items():
        ready = max([task.earliest, *(ends[need] for need in task.needs)])
        machine = min(range(shop.num_machines), key=lambda each: max(free[each], ready))
        start = max(free[machine], ready)
        plan[name] = (machine, start)
        free[machine] = ends[name] = start + task.hours
    return plan


def least(shop: Shop, cost: Cost) -> tuple[int, dict[str, Placed]]:
    """The least cost, `makespan` or `lateness`, and a plan that has it.

    Raises:
        NotOptimalError: it was not found in `MAX_SOLVER_S`.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    starts, on = _modelled(model, shop)
    model.minimize(_cost(model, shop, starts, is_makespan=cost is makespan))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_time_in_seconds = MAX_SOLVER_S
    if solver.solve(model) != cp_model.OPTIMAL:
        raise NotOptimalError(f"no proven optimum within {MAX_SOLVER_S:g} s")
    plan = {
        name: (
            next(machine for machine, is_on in enumerate(on[name]) if solver.value(is_on)),
            solver.value(start),
        )
        for name, start in starts.items()
    }
    return round(solver.objective_value), plan


def _modelled(model: CpModel, shop: Shop) -> tuple[dict[str, IntVar], dict[str, list[IntVar]]]:
    """The rules: by task, its start, and whether it is on each machine."""
    since = dict(shop.broken)
    starts: dict[str, IntVar] = {}
    on: dict[str, list[IntVar]] = {}
    intervals: list[list[Any]] = [[] for _ in range(shop.num_machines)]
    for name, task in shop.tasks.items():
        starts[name] = model.new_int_var(task.earliest, shop.horizon - task.hours, f"start {name}")
        on[name] = [model.new_bool_var(f"{name} on {machine}") for machine in range(shop.num_machines)]
        model.add_exactly_one(on[name])
        for machine, is_on in enumerate(on[name]):
            intervals[machine].append(
                model.new_optional_fixed_size_interval_var(
                    starts[name], task.hours, is_on, f"{name} at {machine}"
                )
            )
            if machine in since:
                model.add(starts[name] + task.hours <= since[machine]).only_enforce_if(is_on)
    for name, (machine, start) in shop.fixed.items():
        model.add(starts[name] == start)
        model.add(on[name][machine] == 1)
    for name, task in shop.tasks.items():
        for need in task.needs:
            model.add(starts[name] >= starts[need] + shop.tasks[need].hours)
    for each in intervals:
        model.add_no_overlap(each)
    return starts, on


def _cost(model: CpModel, shop: Shop, starts: Mapping[str, IntVar], *, is_makespan: bool) -> LinearExprT:
    if is_makespan:
        end = model.new_int_var(0, shop.horizon, "end")
        for name, start in starts.items():
            model.add(end >= start + shop.tasks[name].hours)
        return end
    late = {name: model.new_int_var(0, shop.horizon, f"late {name}") for name in shop.tasks}
    for name, start in starts.items():
        model.add(late[name] >= start + shop.tasks[name].hours - shop.tasks[name].due)
    return sum(shop.tasks[name].weight * each for name, each in late.items())
