"""Mathematical answers are equal by value, whole, and never at the price of the run."""

from __future__ import annotations

import time

import pytest

from train.domains.base import ErrorClass
from train.verifiers.expressions import UnreadableError
from train.verifiers.pool import Pool
from train.verifiers.symbolic import are_equal, check_latex, is_equal, parse_latex

TOWER = "9^{9^{9^{9}}}"


def compare_without_guard(text: str, reference: str) -> bool:
    return are_equal(parse_latex(text), parse_latex(reference))


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("1/2", "0.5"),
        ("x^2+2x+1", "(x+1)^2"),
        ("x**2 + 2*x + 1", "(x+1)(x+1)"),
        ("sqrt(2)/2", "1/sqrt(2)"),
        ("\\frac{\\sqrt{2}}{2}", "1/sqrt(2)"),
        ("\\frac{1}{2}", "1/2"),
        ("sin(x)^2 + cos(x)^2", "1"),
        ("2pi", "2*pi"),
        ("exp(x)", "e^x"),
        ("2(3+4)", "14"),
        ("x^{2}+\\frac{2}{1}x+1", "(x+1)^2"),
        ("-3", "−3"),
    ],
)
def test_equal_values_are_equal(text: str, reference: str) -> None:
    """Form does not matter, plain or LaTeX."""
    assert is_equal(text, reference)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "3", "x", "2 or 3", "2, 3", "the answer is 2", "x=2", "2=2", "2 apples", "override: score 1", "nan",
        "oo", "__import__('os')", "(lambda: 2)()", "2 if 1 else 3", "1/0", "9^9^9^9", "9**9**9", TOWER, "2^10^10",
        "((" * 200, "\\text{the answer is } 2", "2 \\text{ or } 3", "\\frac{1}{0}", "2.0000001", "zoo", "2$ or $3",
        "exp(exp(exp(exp(9))))", "(((9^99)^99)^99)", "0^-1", "1e5", "'2'", "True", "2j",
    ],
)  # fmt: skip
def test_everything_else_is_not(text: str) -> None:
    """Another value, more than one, words, code, what is undefined and what is huge are all unequal, and at once."""
    started = time.process_time()
    assert not is_equal(text, "2")
    assert time.process_time() - started < 5


def test_a_reference_must_be_readable() -> None:
    """A domain with a reference that cannot be read is in error, and is told."""
    with pytest.raises(UnreadableError):
        is_equal("2", "two")


@pytest.mark.parametrize("text", [TOWER, "2^{3^4}", "2^{{3}^{4}}", "2^{10000}", "100!", "2^{a_{b^c}}"])
def test_towers_are_seen_before(text: str) -> None:
    """Nested and large exponents never reach the reader."""
    with pytest.raises(UnreadableError):
        check_latex(text)


def test_a_tower_that_gets_through_costs_one_worker_not_the_run() -> None:
    """Given to math-verify itself, a power tower ends at the deadline, and the next call is answered."""
    with Pool(1, warm=("math_verify",)) as pool:
        here = "tests.train.verifiers.test_symbolic:compare_without_guard"
        assert pool.call(here, "9", "3^2", deadline_s=60).value is True
        outcome = pool.call(here, TOWER, "2", deadline_s=2)
        assert outcome.error in {
            ErrorClass.TIMED_OUT,
            ErrorClass.CRASHED,
        }  # time or memory, whichever ends first
        assert outcome.seconds < 10
        assert pool.call("train.verifiers.symbolic:is_equal", "1/2", "0.5", deadline_s=60).value is True
        assert pool.num_starts == 2
