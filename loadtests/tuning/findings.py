"""What a search has found so far. It is filled while the search runs, so that an interrupted one loses nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

from loadtests.quantiles import Estimate
from loadtests.tuning.evidence import MIN_GAIN, interval
from loadtests.tuning.figures import Figures, Objective, Round
from loadtests.tuning.space import Setting, Value


class Verdict(StrEnum):
    """What became of a candidate."""

    OPEN = "not decided"
    AHEAD = "ahead"
    NO_GAIN = "no gain beyond noise"
    OTHER_ANSWERS = "other greedy answers: lossy"
    DID_NOT_RUN = "did not run"


@dataclass(slots=True, kw_only=True)
class Trial:
    """One candidate against what was best until then."""

    setting: Setting
    against: Setting
    rounds: list[Round] = field(default_factory=list)
    verdict: Verdict = Verdict.OPEN
    keeps_answers: bool = True
    fault: str = ""
    """Why it did not run."""

    def gain(self, objective: Objective) -> Estimate | None:
        """Over `against`; None where it never ran."""
        return interval([each.ratio(objective) for each in self.rounds]) if self.rounds else None


class Outcome(StrEnum):
    """How a search ended."""

    INTERRUPTED = "interrupted before it was confirmed"
    CONFIRMED = "confirmed"
    NO_TIME = "the time did not suffice to try anything: the default stays"
    NOTHING_FOUND = "nothing was beyond noise: the default stays"
    OTHER_ANSWERS = "what looked better gave other greedy answers on a fresh server: the default stays"
    NOT_CONFIRMED = "what looked better was not so on fresh servers: the default stays"


@dataclass(slots=True, kw_only=True)
class Findings:
    """All of a search."""

    best: dict[str, Value] = field(default_factory=dict)
    """What is taken over the default; empty where the default stays."""
    trials: list[Trial] = field(default_factory=list)
    confirmation: list[Round] = field(default_factory=list)
    """`best` against the default, each round on two servers that were just started."""
    outcome: Outcome = Outcome.INTERRUPTED
    is_cut_short: bool = False
    """Time was up before every candidate had its turn."""
    keeps_answers: bool = True
    """Whether what was confirmed, or is best so far, answers greedily as the default does."""
    default_figures: list[Figures] = field(default_factory=list)

    def confirmed(self, objective: Objective) -> Estimate | None:
        """Of `best` over the default; None before the confirmation."""
        return interval([each.ratio(objective) for each in self.confirmation]) if self.confirmation else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A candidate beside the default, by its medians."""

    setting: Setting
    ratios: Mapping[Objective, float]
    """How many times as good as the default."""
    trial: Trial


def points(findings: Findings) -> tuple[Point, ...]:
    """Each candidate that ran, in the order of the search.

    What was raced against an earlier winner is carried over by that one's own ratio.
    """
    known: dict[tuple[tuple[str, Value], ...], Mapping[Objective, float]] = {
        (): dict.fromkeys(Objective, 1.0)
    }
    found = []
    for trial in findings.trials:
        base = known.get(tuple(trial.against.items()))
        if not trial.rounds or base is None:
            continue
        ratios = {each: base[each] * median(r.ratio(each) for r in trial.rounds) for each in Objective}
        known.setdefault(tuple(trial.setting.items()), ratios)
        found.append(Point(setting=trial.setting, ratios=ratios, trial=trial))
    return tuple(found)


def front(candidates: Sequence[Point]) -> tuple[Point, ...]:
    """Those that neither another nor the default dominates (Pareto). Lossy ones are no candidates.

    One dominates by being better in some objective and worse in none, each by more than `MIN_GAIN`.
    """
    kept = [each for each in candidates if each.trial.keeps_answers]
    rivals = [dict.fromkeys(Objective, 1.0), *(each.ratios for each in kept)]
    return tuple(
        each
        for each in kept
        if not any(rival is not each.ratios and _dominates(rival, each.ratios) for rival in rivals)
    )


def _dominates(one: Mapping[Objective, float], other: Mapping[Objective, float]) -> bool:
    ratios = [one[each] / other[each] for each in Objective]
    return min(ratios) >= 1 / (1 + MIN_GAIN) and max(ratios) > 1 + MIN_GAIN
