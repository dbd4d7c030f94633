"""The search: each value of one knob after the other is raced against the best so far; the winner is confirmed.

1. *Climb*. A candidate is the best so far with one knob turned. Its greedy answers are compared with the default's;
   then it is raced (`evidence`), and whoever wins is the best from there on. Passes go on until one changes nothing.
2. *Weed*. Of several knobs that were taken, each has to win another race against the rest of them without it: what only
   rode along is dropped.
3. *Confirm*. The best against the default. It is taken only if all of the interval is above 1; else the default stays.

Races of the climb keep their two servers. Weeding and confirming start both anew for each round: a server can be fast
by luck of where its memory lies, and that luck must not be taken for the setting's. What is confirmed was measured
after it was chosen, so that the many that were tried do not make the interval too good: with nothing to find, a search
claims something in at most 2 of 100 runs, the upper half of what the interval may miss.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Final, Protocol

from loadtests.tuning.evidence import RACE_ROUNDS, Race, is_gain, shown
from loadtests.tuning.figures import Figures, Objective, Round
from loadtests.tuning.findings import Findings, Outcome, Trial, Verdict
from loadtests.tuning.space import Knob, Setting, Value, words

CONFIRM_ROUNDS: Final = 12
MAX_PASSES: Final = 2


class EngineDown(Exception):  # noqa: N818  an outcome of a trial
    """A server did not start, ended, or did not answer; the message says why."""


class ReferenceDown(Exception):  # noqa: N818  ends a search
    """The server that candidates are measured against was lost: nothing more can be said of them."""


class Engine(Protocol):
    """A server that runs."""

    async def figures(self, seed: int) -> Figures:
        """Measure it once; the same seed gives the same requests.

        Raises:
            EngineDown: it did not answer.
        """
        ...

    async def greedy_answers(self) -> tuple[str, ...]:
        """Its answers at temperature 0 to a few prompts.

        Raises:
            EngineDown: it did not answer.
        """
        ...


OpenEngine = Callable[[Setting], AbstractAsyncContextManager[Engine]]
"""Start a server with a setting, warm it up, and end it when the block is left. Raises `EngineDown` from its start."""


class OutOfTime(Exception):  # noqa: N818  ends a phase
    """There is just enough time left for what must follow."""


class Search:
    """One search. `run` fills `findings`, also when it is cancelled half-way.

    Args:
        space: what may be turned.
        open_engine: starts servers.
        objective: what is to become better.
        allows_lossy: candidates may answer otherwise than the default.
        deadline_s: when it shall be over, on `clock`. The confirmation is always run whole.
        clock: monotonic seconds.
        rng: draws orders and requests.
        tell: is told what happens, a line at a time.
    """

    def __init__(
        self,
        space: Sequence[Knob],
        open_engine: OpenEngine,
        *,
        objective: Objective,
        allows_lossy: bool,
        deadline_s: float,
        clock: Callable[[], float],
        rng: random.Random,
        tell: Callable[[str], None],
    ) -> None:
        self._space = space
        self._open = open_engine
        self._objective = objective
        self._allows_lossy = allows_lossy
        self._deadline_s = deadline_s
        self._clock = clock
        self._rng = rng
        self._tell = tell
        self._answers: tuple[str, ...] = ()
        self._fresh_round_s = 0.0
        self.findings = Findings()

    async def run(self) -> None:
        """Search.

        Raises:
            EngineDown, ReferenceDown: the default does not run, or what is measured against no longer does.
        """
        await self._look_at_default()
        try:
            await self._climb()
            await self._weed()
        except OutOfTime:
            self.findings.is_cut_short = True
            self._tell("time is up: what is best so far is confirmed")
        await self._confirm()

    async def _look_at_default(self) -> None:
        began = self._clock()
        async with self._open({}) as default:
            started_s = self._clock() - began
            self._answers = await default.greedy_answers()
            measuring = self._clock()
            self.findings.default_figures.append(await default.figures(self._seed()))
            self._fresh_round_s = 2 * (started_s + self._clock() - measuring)
        self._tell(
            f"the default: {_figures(self.findings.default_figures[0])}; "
            f"the confirmation will take about {CONFIRM_ROUNDS * self._fresh_round_s / 60:.1f} min"
        )

    async def _climb(self) -> None:
        held = AsyncExitStack()
        turns = [(knob, value) for knob in self._space for value in knob.values]
        try:
            best = await held.enter_async_context(self._open({}))
            tried: list[Setting] = [{}]
            for _ in range(MAX_PASSES):
                before = dict(self.findings.best)
                for knob, value in turns:
                    setting = turned(self.findings.best, knob, value)
                    if setting in tried:
                        continue
                    tried.append(setting)
                    self._keep_time()
                    candidate, stack = await self._try(setting, best)
                    if candidate is not None:
                        best, held, stack = candidate, stack, held
                    await stack.aclose()
                if self.findings.best == before:
                    return
        finally:
            await held.aclose()

    async def _try(self, setting: dict[str, Value], best: Engine) -> tuple[Engine | None, AsyncExitStack]:
        """Race one candidate. The server, where it has won, and what ends it."""
        trial = Trial(setting=setting, against=dict(self.findings.best))
        self.findings.trials.append(trial)
        candidate: Engine | None = None
        stack = AsyncExitStack()
        try:
            candidate = await stack.enter_async_context(self._open(setting))
            await self._judge(trial, best, candidate)
        except EngineDown as error:
            trial.verdict, trial.fault = Verdict.DID_NOT_RUN, str(error)
        except BaseException:  # whatever ends the race, an interruption too, ends the server
            await stack.aclose()
            raise
        self._tell(self._line(trial))
        if trial.verdict is not Verdict.AHEAD:
            return None, stack
        self.findings.best, self.findings.keeps_answers = setting, trial.keeps_answers
        return candidate, stack

    async def _judge(self, trial: Trial, best: Engine, candidate: Engine) -> None:
        trial.keeps_answers = await candidate.greedy_answers() == self._answers
        if not trial.keeps_answers and not self._allows_lossy:
            trial.verdict = Verdict.OTHER_ANSWERS
            return
        race = Race()
        while not race.is_over:
            self._keep_time()
            trial.rounds.append(await self._round(best, candidate))
            race.add(trial.rounds[-1].ratio(self._objective))
        trial.verdict = Verdict.AHEAD if race.is_won else Verdict.NO_GAIN

    async def _weed(self) -> None:
        """Drop what the others do as well without."""
        for name in reversed(tuple(self.findings.best)):
            rest = {other: value for other, value in self.findings.best.items() if other != name}
            if not rest:
                return
            race = Race()
            while not race.is_over:
                self._keep_time()
                race.add((await self._fresh_round(rest, self.findings.best)).ratio(self._objective))
            knob = words({name: self.findings.best[name]})
            self._tell(f"{knob} {'stays' if race.is_won else 'only rode along'}")
            if race.is_lost:
                self.findings.best = rest

    async def _confirm(self) -> None:
        found = self.findings
        if not found.best:
            found.outcome = Outcome.NOTHING_FOUND if found.trials else Outcome.NO_TIME
            return
        self._tell(f"confirming {words(found.best)} on fresh servers")
        async with self._open(found.best) as tuned:  # without what was weeded, perhaps never tried before
            found.keeps_answers = await tuned.greedy_answers() == self._answers
        if not found.keeps_answers and not self._allows_lossy:
            found.outcome, found.best = Outcome.OTHER_ANSWERS, {}
            return
        for num in range(CONFIRM_ROUNDS):
            found.confirmation.append(await self._fresh_round({}, found.best))
            so_far = found.confirmed(self._objective)
            assert so_far is not None
            self._tell(f"  round {num + 1} of {CONFIRM_ROUNDS}: {self._objective} {shown(so_far)}")
        found.default_figures += [each.reference for each in found.confirmation]
        confirmed = found.confirmed(self._objective)
        if confirmed is not None and is_gain(confirmed):
            found.outcome = Outcome.CONFIRMED
        else:
            found.outcome, found.best = Outcome.NOT_CONFIRMED, {}

    async def _fresh_round(self, reference: Setting, candidate: Setting) -> Round:
        async with AsyncExitStack() as stack:
            servers = [await stack.enter_async_context(self._open(each)) for each in (reference, candidate)]
            return await self._round(*servers)

    async def _round(self, reference: Engine, candidate: Engine) -> Round:
        """Both with the same requests, in an order that is drawn.

        Raises:
            EngineDown: the candidate did not answer.
            ReferenceDown: the reference did not.
        """
        seed = self._seed()
        if self._rng.random() < 0.5:
            first = await _of_reference(reference, seed)
            return Round(reference=first, candidate=await candidate.figures(seed))
        second = await candidate.figures(seed)
        return Round(reference=await _of_reference(reference, seed), candidate=second)

    def _keep_time(self) -> None:
        """Leave enough for the confirmation, and for weeding what is more than one knob.

        Raises:
            OutOfTime: there is no more than that.
        """
        num_rounds = CONFIRM_ROUNDS + RACE_ROUNDS * (len(self.findings.best) > 1)
        if self._clock() + num_rounds * self._fresh_round_s > self._deadline_s:
            raise OutOfTime

    def _seed(self) -> int:
        return self._rng.randrange(1 << 30)

    def _line(self, trial: Trial) -> str:
        found = trial.gain(self._objective)
        told = (
            "" if found is None else f"  {self._objective} × {found.value:.3f} in {len(trial.rounds)} rounds"
        )
        why = f": {trial.fault}" if trial.fault else ""
        return f"{words(trial.setting)}{told}  {trial.verdict}{why}"


async def _of_reference(reference: Engine, seed: int) -> Figures:
    try:
        return await reference.figures(seed)
    except EngineDown as error:
        raise ReferenceDown(str(error)) from error


def turned(setting: Setting, knob: Knob, value: Value) -> dict[str, Value]:
    """A setting with one knob turned; the default is not spelled out."""
    rest = {name: old for name, old in setting.items() if name != knob.name}
    return rest if value == knob.default else rest | {knob.name: value}


def _figures(found: Figures) -> str:
    return ", ".join(f"{each} {found.figure(each):.3g} {each.unit}" for each in Objective)
