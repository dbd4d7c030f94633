"""An evaluation while it runs: a model, or one for each fold, reads prompts that it was not fitted on.

What a prompt's probabilities are, how long they took, and what they become when the prompt is rewritten are taken from
the same model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.arms import named_arms
from router.duplicates import duplicate_groups
from router.evaluate import NothingToJudgeError, Report, evaluate
from router.fit import fit, held_out_models
from router.fit_config import FitConfig
from router.fitted import FittedModel
from router.outcome_table import OutcomeTable
from router.prepared import Prepared, prepare
from router.robustness import RobustnessReport, rewritten_probabilities, robustness

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

MAX_REWRITTEN: Final = 1000
"""Prompts that are rewritten and timed, drawn at random from a larger table."""
NUM_TIMES: Final = 3
"""A prompt is timed so often, and the median counts: what else the machine does meanwhile is not the model's time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long the model took for a prompt, from its text to the forecast of every arm."""

    num_prompts: int
    p50_s: float
    p99_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A table, evaluated."""

    name: str
    how: str
    """What was fitted on what."""
    report: Report
    latency: Latency
    robustness: tuple[RobustnessReport, ...]


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the prompts of a table by models that had not seen them."""

    clock: Callable[[], float]
    """Seconds."""
    seed: int

    def read(self, prepared: Prepared, models: Iterable[tuple[Places, FittedModel]], name: str) -> _Read:
        """Each model reads the prompts at its places; together the places are all."""
        num = len(prepared.table)
        probabilities = np.zeros(prepared.table.successes.shape)
        sampled = self._generator().permutation(num)[:MAX_REWRITTEN]
        rewritten: dict[str, Floats] = {}
        seconds: list[float] = []
        for places, model in models:
            for place in places:
                probabilities[place] = model.probabilities(prepared.encoded[place])
            chosen = np.intersect1d(places, sampled)
            prompts = [prepared.table.prompts[place] for place in chosen]
            for rewriting, others in rewritten_probabilities(model, prompts).items():
                whole = rewritten.setdefault(rewriting, np.zeros_like(probabilities))
                if len(chosen):
                    whole[chosen] = others
            seconds += self._times(prepared, chosen, model)
        return _Read(prepared, probabilities, sampled, rewritten, seconds, name)

    def evaluation(self, read: _Read, how: str) -> Evaluation:
        """Everything about what was read.

        Raises:
            NothingToJudgeError: no prompt was tried on both the weakest and the strongest arm.
        """
        sampled = read.sampled
        return Evaluation(
            name=read.name,
            how=how,
            report=evaluate(read.prepared.table, read.probabilities, read.prepared.groups, self._generator()),
            latency=Latency(
                num_prompts=len(read.seconds),
                p50_s=float(np.quantile(read.seconds, 0.5)),
                p99_s=float(np.quantile(read.seconds, 0.99)),
            ),
            robustness=robustness(
                read.probabilities[sampled],
                {name: others[sampled] for name, others in read.rewritten.items()},
            ),
        )

    def _times(self, prepared: Prepared, places: Places, model: FittedModel) -> list[float]:
        arms = named_arms(model.arms)
        times = []
        for place in places:
            view = prepared.table.view(place)
            times.append(median(self._time(partial(model.forecast, view, arms)) for _ in range(NUM_TIMES)))
        return times

    def _time(self, call: Callable[[], object]) -> float:
        began = self.clock()
        call()
        return self.clock() - began

    def _generator(self) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(self.seed))


@dataclass(frozen=True, slots=True)
class _Read:
    prepared: Prepared
    probabilities: Floats
    sampled: Places
    rewritten: dict[str, Floats]
    """Filled in where `sampled` points."""
    seconds: list[float]
    name: str


def by_folds(
    name: str, prepared: Prepared, config: FitConfig, reader: Reader, on_step: Callable[[], None]
) -> Evaluation:
    """Every prompt is read by a model that was fitted without its fold.

    Raises:
        FitRefusedError: too few outcomes, or of one class only.
    """
    read = reader.read(prepared, held_out_models(prepared, config, on_step=on_step), name)
    return reader.evaluation(read, f"held out in {config.num_folds} folds")


def by_training(
    name: str,
    prepared: Prepared,
    training: Prepared,
    config: FitConfig,
    reader: Reader,
    on_step: Callable[[], None],
) -> Evaluation:
    """The prompts that are no near-duplicates of `training`'s are read by a model that was fitted on those.

    Raises:
        FitRefusedError: too few outcomes to fit on, or of one class only.
        NothingToJudgeError: no prompt is left.
    """
    fresh = _fresh(prepared, training)
    if not len(fresh):
        raise NothingToJudgeError(f"{name}: every prompt is a near-duplicate of one that was fitted on")
    num_left_out = len(prepared.table) - len(fresh)
    model = fit(training, config, version="training", on_step=on_step)
    how = f"fitted on {len(training.table)} other prompts"
    if num_left_out:
        how += f"; {num_left_out} near-duplicates of those are left out"
    return by_model(name, prepared.select(fresh), model, reader, how)


def by_model(name: str, prepared: Prepared, model: FittedModel, reader: Reader, how: str) -> Evaluation:
    """Every prompt is read by one model."""
    read = reader.read(prepared, [(np.arange(len(prepared.table)), model)], name)
    return reader.evaluation(read, how)


def prepared_for(model: FittedModel, table: OutcomeTable) -> Prepared:
    """`table` as the model reads it."""
    return prepare(table, model.embed)


def _fresh(prepared: Prepared, training: Prepared) -> Places:
    words = [encoded.words for encoded in (*training.encoded, *prepared.encoded)]
    groups = duplicate_groups(words)
    seen = groups[: len(training.encoded)]
    return np.flatnonzero(~np.isin(groups[len(training.encoded) :], seen))
