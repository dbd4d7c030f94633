"""How likely each arm is to answer a request well, and how much it will write: the model behind every
decision.

`StructuralHeuristic` is the model of a router that has seen no outcomes yet. Its numbers are judgement, not
measurement: they order requests sensibly and show their reasons, and are not calibrated. A model fitted on
outcomes of the tiers that are served takes its place behind the same protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp
from typing import Protocol

from router.arms import Arm
from router.features import STRUCTURE_VERSION, Reading, asks_for_length, read, structure
from router.request import RequestView


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What is expected of one arm on one request."""

    success_probability: float
    """In [0, 1]."""
    num_output_tokens: float
    """Of one answer, before `max_tokens` cuts it."""
    is_supported: bool = True
    """Whether the model has seen the like. Where not, the probability is a guess, and doubt should go up."""
    raw_probability: float | None = None
    """What the model said before recent outcomes bent it (`router.recalibration`); None where nothing did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """All that a model makes of one request, read once."""

    forecasts: Mapping[str, Forecast]
    """By arm."""
    inputs: Mapping[str, float] = field(default_factory=dict)
    """A few of the numbers that the forecasts rest on, always the same ones: what is watched for drift."""


class DifficultyModel(Protocol):
    """Anything that forecasts arms. Pure: the same view and arms give the same forecast."""

    @property
    def version(self) -> str:
        """Names the model and its weights; goes into every decision."""
        ...

    @property
    def watched(self) -> Sequence[str]:
        """The names of an assessment's `inputs`."""
        ...

    def assess(self, view: RequestView, arms: Sequence[Arm]) -> Assessment:
        """The forecast for each of `arms`, and what it rests on."""
        ...

    def forecast(self, view: RequestView, arms: Sequence[Arm]) -> Mapping[str, Forecast]:
        """The forecast for each of `arms`, by name."""
        ...

    def contributions(self, view: RequestView) -> Mapping[str, float]:
        """What moved the forecast, by feature; more is harder. For a person who asks why."""
        ...


WEIGHTS: Mapping[str, float] = {
    "length": 0.10,  # per doubling beyond a dozen words
    "reasoning": 0.30,  # per distinct word
    "explaining": 0.08,  # per distinct word
    "constraints": 0.12,  # per doubling, as all below that are not said to be otherwise
    "steps": 0.12,
    "numbers": 0.10,
    "maths": 0.18,
    "code": 0.14,
    "tables": 0.10,
    "questions": 0.10,
    "other_script": 0.60,  # the share itself: small models know little beyond Latin script
    "turns": 0.05,
    "tools": 0.10,
    "schema": 0.10,  # if there is one
}
"""How much each structural feature adds to the difficulty score. None is negative: more never means
easier."""

WATCHED = ("length", "reasoning", "constraints", "numbers", "code", "other_script", "turns", "tools")
"""The features that drift is looked for in (`router.drift`)."""

BASE_SCORE = 0.03
"""The score of a request with no feature at all: nothing is certain."""

MISS_WEAKEST = 0.95
MISS_STRONGEST = 0.15
"""Chance that the weakest and the strongest tier fail the hardest request; tiers between them lie on a
line."""

EFFORT_GAIN = 0.06
"""By which share each level of effort lowers that chance, and the multiple of tokens that it writes more."""


@dataclass(frozen=True, slots=True)
class StructuralHeuristic:
    """p = 1 − h·miss(arm), with difficulty h = 1 − exp(−base − Σ weight·feature) in (0, 1).

    An arm's p falls as h grows, and the weaker the tier the faster; so the advantage of a stronger arm grows
    with h, and a harder request of the same cost never gets a cheaper arm.
    """

    version: str = f"heuristic-1/{STRUCTURE_VERSION}"

    @property
    def watched(self) -> tuple[str, ...]:
        """Those of the features that most requests differ in."""
        return WATCHED

    def difficulty(self, view: RequestView) -> float:
        """h: near 0 for small talk, towards 1 for the hardest."""
        return _difficulty(structure(view))

    def contributions(self, view: RequestView) -> dict[str, float]:
        """Each feature's part of the score, all at least 0."""
        return {name: WEIGHTS[name] * value for name, value in structure(view).items()}

    def forecast(self, view: RequestView, arms: Sequence[Arm]) -> Mapping[str, Forecast]:
        """The forecast for each of `arms`; their strengths are compared with each other."""
        return self.assess(view, arms).forecasts

    def assess(self, view: RequestView, arms: Sequence[Arm]) -> Assessment:
        """The same, with the features that are watched."""
        reading = read(view.turns)
        features = structure(view, reading)
        difficulty = _difficulty(features)
        last = reading if view.num_turns == 1 else None
        num_tokens = expected_output_tokens(view, length=features["length"], last_turn=last)
        strengths = [arm.strength for arm in arms]
        forecasts = {
            arm.name: Forecast(
                success_probability=1 - difficulty * _miss(arm, min(strengths), max(strengths)),
                num_output_tokens=num_tokens * (1 + arm.effort),
            )
            for arm in arms
        }
        return Assessment(forecasts=forecasts, inputs={name: features[name] for name in WATCHED})


def expected_output_tokens(view: RequestView, *, length: float, last_turn: Reading | None = None) -> float:
    """Tokens of an answer from an arm without effort: by the form asked for, and the `length` feature."""
    wish = asks_for_length(view, last_turn)
    if wish < 0:
        return 16.0
    return 48.0 + 16.0 * length + 96.0 * wish


def _difficulty(features: Mapping[str, float]) -> float:
    return 1 - exp(-BASE_SCORE - sum(WEIGHTS[name] * value for name, value in features.items()))


def _miss(arm: Arm, weakest: int, strongest: int) -> float:
    rank = 1.0 if weakest == strongest else (arm.strength - weakest) / (strongest - weakest)
    miss = MISS_WEAKEST + rank * (MISS_STRONGEST - MISS_WEAKEST)
    return miss * (1 - EFFORT_GAIN * arm.effort)
