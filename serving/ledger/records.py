"""What the ledger holds, as plain records: one decision a request, one attempt each time an upstream is asked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Outcome(StrEnum):
    """How an attempt ended. Only `FAILURE` moves a breaker."""

    SUCCESS = "success"
    CANCELLED = "cancelled"
    """The client went away, or another attempt was preferred."""
    REJECTED = "rejected"
    """The upstream answered 4xx: the request was at fault."""
    OVERLOADED = "overloaded"
    """The upstream is full (429, 503 with `retry-after`, 529), or no replica had room in time."""
    FAILURE = "failure"


class Purpose(StrEnum):
    """What an attempt was made for."""

    ANSWER = "answer"
    """The client's answer."""
    SHADOW = "shadow"
    """What another arm would have answered."""
    JUDGE = "judge"
    """The comparison of two answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one attempt, as the upstream counted them; None where it did not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One attempt at one replica. Times are seconds since the request's arrival; None where it never came to that."""

    request_id: str
    attempt: int
    """0 for the first."""
    arm: str
    tier: str
    replica: str
    """The replica's URL; empty where none was found."""
    started_s: float
    first_byte_s: float | None
    """Response headers from upstream."""
    first_token_s: float | None
    """First token sent to the client."""
    ended_s: float
    is_committed: bool
    """Whether any byte of this attempt's answer reached the client."""
    status: int | None
    """The upstream's HTTP status."""
    outcome: Outcome
    error: str | None
    """For a person: what went wrong, without text from the request."""
    usage: Usage
    cost: float
    """Money, by the tier's price and the usage. Where the upstream gave no usage (a cancelled stream): by the stream's
    events and the estimate of the prompt."""
    purpose: Purpose = Purpose.ANSWER
    """Whatever is not for the client has a `request_id` of its own, without a decision."""
    parent: str | None = None
    """The `request_id` of the client's request that a shadow run is about."""


SHADOW: Final = "shadow"
"""The source of the grades that shadow runs give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackRecord:
    """How good an answer was, as somebody who saw it says; with what had been decided, so that it stands by itself."""

    request_id: str
    recorded_at: float
    """Unix time, seconds."""
    key: str | None
    """Name of the API key, which is also that of the decision."""
    source: str
    """Who says so: `client`, `verifier`, `judge` or `shadow`. Of several by one source, the last counts."""
    score: float
    """In [0, 1]; 1 is a success."""
    arm: str
    tier: str
    success_probability: float
    """What was forecast of the arm."""
    propensity: float
    """The chance that the arm was chosen; where a shadow run says so, the chance of a run that grades this arm."""
    artifact_version: str

    @property
    def is_outcome(self) -> bool:
        """Whether it says how good the answer was. A shadow run says whether it was as good as a stronger arm's, which
        is another thing: both may be wrong, or the weaker one right. Nothing that is forecast is measured by it."""
        return self.source != SHADOW


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """One request: what was asked, decided and answered."""

    request_id: str
    created_at: float
    """Unix time, seconds."""
    endpoint: str
    key: str | None
    """Name of the API key, never the key."""
    session: str | None
    model: str
    """As the client wrote it, cut to 200 characters."""
    is_streaming: bool
    arm: str | None
    """None where the request ended before an arm was chosen."""
    tier: str | None
    reason: str | None
    success_probability: float | None
    expected_cost: float | None
    metric: str | None
    """What λ prices: one of the budget's metrics."""
    price_of_compute: float | None
    """λ as the request drew it."""
    propensity: float | None
    quality_floor: float | None
    """The least probability of success that was asked of an arm, while some arm reached it."""
    is_curtailed: bool | None
    """Whether an arm that could have answered was down or full."""
    middle_price: float | None
    """λ at the middle of the band that the request drew its own from."""
    spread: float | None
    """Relative width of that band; 0 for none."""
    exploration_share: float | None
    """The share of such requests that a lot decides; 0 where none could."""
    lot: float | None
    """The draw that explores: below that share it says which arm."""
    policy_version: str | None
    artifact_version: str | None
    candidates: str
    """JSON: every arm considered, with p, cost and exclusion, and the chance with which it was picked."""
    num_input_chars: int
    status: int
    """Sent to the client, or that of the error event which ended its stream; 499 where it went away first."""
    error_code: str | None
    num_attempts: int
    total_s: float
    cost: float
    engine_seconds: float
    """For which engines were held, over all attempts."""
    full_share: float | None
    """1 where the strongest tier worked on it, else 0; None where the request ended before an arm was chosen."""
    prompt: str | None
    """The task's text, only where `[ledger] store_prompts` is on."""
