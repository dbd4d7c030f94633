"""Whether something may be published: a criterion a line, what was measured beside what is wanted.

Nothing is measured here, and nothing read.

| criterion | passes where |
|---|---|
| retention | the lower end of the interval of candidate / teacher (macro, `paired`) is high enough |
| worst domain | no domain's interval of candidate − teacher lies wholly below the drop that is allowed |
| cost | candidate's cost as a share of the full model's is low enough: of a token, or of a solved task |
| acceptance | the cost model finds a domain that the draft makes faster |
| size, licence, tokenizer | as they say |
| llama.cpp, vLLM | the engine came up on it and answered every prompt |

What was not measured does not pass. A student, a draft and a quantised model are asked different ones of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from pydantic import Field

from distill.paired import Kept
from distill.student_delta import MAX_BYTES
from serving.engines.base import SettingsNode

PERMISSIVE: Final = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSL-1.0",
        "CC-BY-4.0",
        "CC0-1.0",
        "ISC",
        "MIT",
        "Zlib",
    }
)
"""SPDX identifiers of licences that let anyone use, change and pass on."""
NOT_MEASURED: Final = "not measured"

EngineName = Literal["llama.cpp", "vLLM"]
ENGINES: Final[tuple[EngineName, ...]] = ("llama.cpp", "vLLM")


class Candidacy(StrEnum):
    """What it wants to be published as."""

    STUDENT = "student"
    DRAFT = "draft"
    QUANTISED = "quantised"


class Wanted(SettingsNode):
    """What a candidate has to be."""

    min_retention: float = Field(0.90, ge=0)
    """Of the teacher's mean verified score: the lower end of its interval."""
    max_domain_drop: float = Field(0.10, ge=0, le=1)
    """In score; a domain is worse than that where the upper end of its difference is."""
    max_cost_share: float = Field(0.40, gt=0)
    """Of the full model's."""
    cost_of: Literal["token", "solved"] = "token"
    """Seconds of a token, or of a task that is solved: tokens of an answer × seconds of a token / score."""
    num_streams: int = Field(16, ge=1)
    """At which cost is compared."""
    max_bytes: int = Field(MAX_BYTES, gt=0)
    """Of what is published; of a student alone."""
    licences: frozenset[str] = PERMISSIVE
    engines: tuple[EngineName, ...] = ENGINES
    """Which have to come up on it."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one side."""

    token_s: float
    """Seconds of the machine for one token, at `Wanted.num_streams`."""
    mean_tokens: float
    """Of an answer."""
    score: float
    """Mean verified."""

    @property
    def solved_s(self) -> float:
        """Seconds of a task that is solved; infinite where none is."""
        return self.token_s * self.mean_tokens / self.score if self.score > 0 else float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was measured; None, or an engine that is missing: it was not."""

    kept: Kept | None = None
    cost: Cost | None = None
    full_cost: Cost | None = None
    speed_ups: Mapping[str, float] | None = None
    """Of a draft: by domain, at its best number of drafts."""
    break_even: float | None = None
    """The acceptance that would pay there; None where none would."""
    size_bytes: int
    licence: str
    is_same_tokenizer: bool
    loads: Mapping[EngineName, str]
    """Engine → what happened: empty where it came up and answered, else why not."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """A line of the table."""

    name: str
    measured: str
    wanted: str
    passes: bool


class RefusedError(Exception):
    """The gate refuses; `verdict` has the table."""

    def __init__(self, verdict: Verdict) -> None:
        failed = "; ".join(f"{each.name} is {each.measured}" for each in verdict.criteria if not each.passes)
        super().__init__(f"refused: {failed}; nothing was published")
        self.verdict = verdict


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one candidate."""

    criteria: tuple[Criterion, ...]

    @property
    def passes(self) -> bool:
        """Whether every line does."""
        return all(each.passes for each in self.criteria)

    def require(self) -> None:
        """Go on only with what passes.

        Raises:
            RefusedError: with what does not.
        """
        if not self.passes:
            raise RefusedError(self)


def judge(candidacy: Candidacy, found: Evidence, wanted: Wanted) -> Verdict:
    """All that is asked of this candidacy."""
    asked = {
        Candidacy.STUDENT: (_retention, _worst_domain, _cost, _size, _licence, _tokenizer),
        Candidacy.DRAFT: (_acceptance, _licence, _tokenizer),
        Candidacy.QUANTISED: (_retention, _worst_domain, _cost, _licence, _tokenizer),
    }[candidacy]
    return Verdict(
        (
            *(criterion(found, wanted) for criterion in asked),
            *(_engine(engine, found) for engine in wanted.engines),
        )
    )


def _retention(found: Evidence, wanted: Wanted) -> Criterion:
    retention = None if found.kept is None else found.kept.retention
    said = NOT_MEASURED if found.kept is None else "the teacher solves nothing"
    if retention is not None:
        said = f"{retention.value:.3f} ({retention.low:.3f} to {retention.high:.3f})"
    passes = retention is not None and retention.low >= wanted.min_retention
    return Criterion("retention", said, f"at least {wanted.min_retention:.3f} at its lower end", passes)


def _worst_domain(found: Evidence, wanted: Wanted) -> Criterion:
    asked = f"no domain lower by more than {wanted.max_domain_drop:.2f} at its upper end"
    if found.kept is None:
        return Criterion("worst domain", NOT_MEASURED, asked, passes=False)
    domain, worst = min(found.kept.differences.items(), key=lambda pair: (pair[1].high, pair[1].value))
    said = f"{domain} {worst.value:+.3f} ({worst.low:+.3f} to {worst.high:+.3f})"
    return Criterion("worst domain", said, asked, worst.high >= -wanted.max_domain_drop)


def _cost(found: Evidence, wanted: Wanted) -> Criterion:
    of = "token" if wanted.cost_of == "token" else "solved task"
    asked = f"at most {wanted.max_cost_share:.2f} of the full model's"
    name = f"cost of a {of} at {wanted.num_streams} streams"
    if found.cost is None or found.full_cost is None:
        return Criterion(name, NOT_MEASURED, asked, passes=False)
    mine, full = (
        each.token_s if wanted.cost_of == "token" else each.solved_s for each in (found.cost, found.full_cost)
    )
    share = mine / full if full < float("inf") else float("inf")
    return Criterion(
        name, f"{share:.2f} ({_time(mine)} to {_time(full)})", asked, share <= wanted.max_cost_share
    )


def _time(seconds: float) -> str:
    return "never" if seconds == float("inf") else f"{1000 * seconds:.2f} ms"


def _acceptance(found: Evidence, wanted: Wanted) -> Criterion:
    asked = "faster than without in some domain"
    if not found.speed_ups:
        return Criterion("acceptance", NOT_MEASURED, asked, passes=False)
    domain, best = max(found.speed_ups.items(), key=lambda pair: pair[1])
    needed = "no acceptance would pay" if found.break_even is None else f"{found.break_even:.2f} would pay"
    return Criterion("acceptance", f"{best:.2f}× in {domain}, predicted; {needed}", asked, best > 1)


def _size(found: Evidence, wanted: Wanted) -> Criterion:
    said, asked = (f"{num / 1e6:.1f} MB" for num in (found.size_bytes, wanted.max_bytes))
    return Criterion("size", said, f"at most {asked}", found.size_bytes <= wanted.max_bytes)


def _licence(found: Evidence, wanted: Wanted) -> Criterion:
    return Criterion(
        "licence", found.licence or "unknown", "permissive", is_permissive(found.licence, wanted.licences)
    )


def _tokenizer(found: Evidence, wanted: Wanted) -> Criterion:
    said = "the same" if found.is_same_tokenizer else "another"
    return Criterion("tokenizer", said, "the teacher's", found.is_same_tokenizer)


def _engine(engine: EngineName, found: Evidence) -> Criterion:
    fault = found.loads.get(engine)
    said = "not tried" if fault is None else fault or "answers"
    return Criterion(engine, said, "comes up on it and answers", fault == "")


def is_permissive(expression: str, licences: frozenset[str]) -> bool:
    """Whether an SPDX expression gives a choice, or all, of these: `OR` of `AND`s, without brackets.

    Anything else that the grammar has (`WITH`, brackets, `LicenseRef-…`) is not known here, and so not permissive.
    """
    choices = [choice.split(" AND ") for choice in expression.split(" OR ")]
    return any(all(name.strip() in licences for name in choice) for choice in choices)
