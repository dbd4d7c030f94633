"""The search on simulated engines: it finds what is there, and claims nothing where there is nothing."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from loadtests.tuning.figures import Objective
from loadtests.tuning.findings import Findings, Outcome, Verdict, front, points
from loadtests.tuning.search import CONFIRM_ROUNDS, EngineDown, ReferenceDown, Search
from tests.loadtests.tuning.simulated_engine import SPACE, Workshop

HOURS = 3600.0


async def searched(
    workshop: Workshop,
    *,
    objective: Objective = Objective.ALONE,
    deadline_s: float = 9 * HOURS,
    **options: Any,
) -> Findings:
    search = search_in(workshop, objective=objective, deadline_s=deadline_s, **options)
    await search.run()
    assert workshop.num_open == 0
    assert workshop.max_open == 2, "more servers than two would disturb one another"
    return search.findings


def search_in(
    workshop: Workshop,
    *,
    objective: Objective = Objective.ALONE,
    deadline_s: float = 9 * HOURS,
    allows_lossy: bool = False,
    told: list[str] | None = None,
) -> Search:
    return Search(
        SPACE,
        workshop.open,
        objective=objective,
        allows_lossy=allows_lossy,
        deadline_s=deadline_s,
        clock=workshop.clock,
        rng=random.Random(workshop.seed + 1),
        tell=(told if told is not None else []).append,
    )


@pytest.mark.parametrize("objective", Objective)
async def test_a_fifth_is_found_in_a_twentieth_of_noise(objective: Objective) -> None:
    """Whatever is tuned for, in at least 19 of 20 searches; the interval holds the truth, the rest stays as it is."""
    truth = ("batch", 256)
    found = [
        await searched(Workshop(seed=seed, speeds={truth: 1.2}), objective=objective) for seed in range(20)
    ]
    hits = [each for each in found if each.best.get("batch") == 256 and each.outcome is Outcome.CONFIRMED]
    assert len(hits) >= 19
    gains = [each.confirmed(objective) for each in hits if each.best == {"batch": 256}]
    assert len(gains) >= 15
    held = [each for each in gains if each and each.low and each.high and each.low <= 1.2 <= each.high]
    assert len(held) >= 0.85 * len(gains)


@pytest.mark.parametrize("luck", [0.0, 0.03])
async def test_nothing_is_claimed_where_nothing_is(luck: float) -> None:
    """Noise, and servers that are fast by luck, get at most 2 of 100 searches to claim something."""
    found = [await searched(Workshop(seed=seed, luck=luck)) for seed in range(200)]
    false = [each for each in found if each.best]
    assert len(false) <= 8  # at a rate of 2 %, more come once in 50 times; seeds are fixed
    assert all(
        not each.best for each in found if each.outcome in {Outcome.NOTHING_FOUND, Outcome.NOT_CONFIRMED}
    )
    if luck:  # else it could not be told from a search that never nominates
        assert any(each.outcome is Outcome.NOT_CONFIRMED for each in found)


async def test_losers_are_dropped_early() -> None:
    """A setting that changes nothing takes four rounds on average, a slow one two."""
    slow = {(knob.name, value): 0.7 for knob in SPACE for value in knob.candidates}
    assert {len(each.rounds) for each in (await searched(Workshop(speeds=slow))).trials} == {2}
    rounds = [
        len(each.rounds)
        for seed in range(30)
        for each in (await searched(Workshop(seed=seed))).trials
        if not each.against
    ]
    assert 3 < sum(rounds) / len(rounds) < 4.5


async def test_gains_of_two_knobs_are_put_together() -> None:
    """The second is raced on top of the first, and both are weeded and confirmed as one."""
    workshop = Workshop(seed=3, speeds={("threads", 4): 1.3, ("attention", "off"): 1.25}, noise=0.02)
    found = await searched(workshop)
    assert found.best == {"threads": 4, "attention": "off"}
    gain = found.confirmed(Objective.ALONE)
    assert gain is not None
    assert gain.value == pytest.approx(1.3 * 1.25, rel=0.03)
    both = next(each for each in points(found) if each.setting == found.best)
    assert both.ratios[Objective.STREAMS] == pytest.approx(1.3 * 1.25, rel=0.05)
    assert both in front(points(found))


async def test_what_rides_along_is_weeded() -> None:
    """A knob that won its race by luck is dropped when it has to win again beside the one that pays."""
    weeded = 0
    for seed in range(60):
        told: list[str] = []
        workshop = Workshop(seed=seed, speeds={("threads", 4): 1.3}, luck=0.04)
        search = search_in(workshop, told=told)
        await search.run()
        assert search.findings.best.get("threads") == 4
        weeded += any("only rode along" in line for line in told)
    assert weeded > 5


async def test_other_answers_are_dropped() -> None:
    """However fast; with a line that says so. Where lossy settings are allowed, they are taken and marked."""
    told: list[str] = []
    workshop = Workshop(speeds={("attention", "off"): 2.0}, lossy={"attention": "off"})
    search = search_in(workshop, told=told)
    await search.run()
    assert search.findings.best == {}
    lossy = next(each for each in search.findings.trials if each.setting == {"attention": "off"})
    assert (lossy.verdict, lossy.rounds) == (Verdict.OTHER_ANSWERS, [])
    assert any("attention=off  other greedy answers: lossy" in line for line in told)
    found = await searched(
        Workshop(speeds={("attention", "off"): 2.0}, lossy={"attention": "off"}), allows_lossy=True
    )
    assert (found.best, found.keeps_answers) == ({"attention": "off"}, False)


async def test_what_does_not_run_is_passed_over() -> None:
    """With the reason; without a default there is nothing to compare with."""
    found = await searched(Workshop(broken={"threads": 4}, speeds={("batch", 256): 1.3}))
    broken = next(each for each in found.trials if each.setting == {"threads": 4})
    assert (broken.verdict, broken.fault) == (Verdict.DID_NOT_RUN, "no such kernel")
    assert found.best == {"batch": 256}

    class NoDefault(Workshop):
        def open(self, setting: Any) -> Any:
            raise EngineDown("no weights")

    with pytest.raises(EngineDown, match="no weights"):
        await search_in(NoDefault()).run()


async def test_a_lost_reference_ends_the_search() -> None:
    """It is not put down to the candidates; servers end all the same."""

    class Lost(Workshop):
        def disturbance(self) -> float:
            if self.now_s > 60:
                raise EngineDown("connection lost")
            return super().disturbance()

    workshop = Lost()
    search = search_in(workshop)
    with pytest.raises(ReferenceDown, match="connection lost"):
        await search.run()
    assert workshop.num_open == 0


async def test_answers_are_compared_again_before_they_are_served() -> None:
    """On a fresh server with exactly what would be written."""
    workshop = Workshop(speeds={("threads", 4): 1.5})
    search = search_in(workshop)
    weed = search._weed

    async def weeding() -> None:
        await weed()
        workshop.lossy = {"threads": 4}

    search._weed = weeding  # type: ignore[method-assign]
    await search.run()
    assert (search.findings.outcome, search.findings.best) == (Outcome.OTHER_ANSWERS, {})
    assert search.findings.confirmation == []


async def test_time_is_kept() -> None:
    """The confirmation is run whole within the time; too little for anything says so."""
    workshop = Workshop(speeds={("threads", 4): 1.5})
    found = await searched(workshop, deadline_s=400)
    assert found.is_cut_short
    assert found.best == {"threads": 4}
    assert len(found.confirmation) == CONFIRM_ROUNDS
    assert workshop.now_s < 440
    nothing = search_in(Workshop(), deadline_s=30)
    await nothing.run()
    assert (nothing.findings.outcome, nothing.findings.trials) == (Outcome.NO_TIME, [])


async def test_an_interrupted_search_ends_its_servers_and_keeps_what_it_found() -> None:
    """Wherever it is cancelled."""
    kept = 0
    for num_measured in range(1, 120, 7):
        workshop = Workshop(speeds={("threads", 4): 1.5})
        search = search_in(workshop)
        running = asyncio.create_task(search.run())
        counted = _interrupting(workshop, running, num_measured)
        with pytest.raises(asyncio.CancelledError):
            await counted
        assert workshop.num_open == 0
        assert search.findings.outcome is Outcome.INTERRUPTED
        kept += search.findings.best == {"threads": 4}
    assert kept > 5


async def _interrupting(workshop: Workshop, running: asyncio.Task[None], num_measured: int) -> None:
    """Cancel once so many measurements were taken. Simulated engines never wait, so that it is done from within."""
    left = num_measured
    disturbance = workshop.disturbance

    def counting() -> float:
        nonlocal left
        left -= 1
        if left == 0:
            running.cancel()
        return disturbance()

    workshop.disturbance = counting  # type: ignore[method-assign]
    await running
