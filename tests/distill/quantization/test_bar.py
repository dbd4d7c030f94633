"""What passes is what reaches both bars; every miss is a reason."""

from __future__ import annotations

from distill.paired import Pair, kept
from distill.quantization.bar import Bar
from train.agreement import Agreement

NEAR = {"sums": Agreement(0.01, 0.99, 100), "words": Agreement(0.2, 0.9, 50)}
WHOLE = [1.0, 0.0] * 20


def test_divergence_is_of_the_worst_domain() -> None:
    """At the bar passes, above it does not; nothing that cannot be compared passes."""
    assert not Bar(0.2).reasons(NEAR, None)
    [reason] = Bar(0.1).reasons(NEAR, None)
    assert reason == "0.2000 nats a token apart in words, and 0.1 may be"
    assert Bar(0.2).reasons({"sums": Agreement(float("nan"), 0.0, 1)}, None)


def test_retention_is_its_lower_end() -> None:
    """The same answers keep everything; a few lost ones keep a share whose lower end counts."""
    same = kept({"sums": Pair(WHOLE, WHOLE)}, seed=0)
    assert not Bar(min_retention=1.0).reasons(NEAR, same)
    lost = kept({"sums": Pair([0.0] * 4 + WHOLE[4:], WHOLE)}, seed=0)
    assert lost.retention is not None
    assert lost.retention.low < 0.85 < lost.retention.value
    assert not Bar(min_retention=lost.retention.low).reasons(NEAR, lost)
    [reason] = Bar(min_retention=0.85).reasons(NEAR, lost)
    assert reason.startswith("keeps 0.900 of the score, 0.")


def test_what_was_not_measured_does_not_pass() -> None:
    """Nor does what keeps nothing of nothing."""
    assert Bar(min_retention=0.5).reasons(NEAR, None) == ("retention was not measured",)
    nothing = kept({"sums": Pair([0.0] * 4, [0.0] * 4)}, seed=0)
    [reason] = Bar(min_retention=0.5).reasons(NEAR, nothing)
    assert "is of nothing" in reason


def test_no_bar_asks_nothing() -> None:
    """And both are asked where both are set."""
    assert not Bar().reasons(NEAR, None)
    assert len(Bar(0.1, 0.5).reasons(NEAR, None)) == 2
