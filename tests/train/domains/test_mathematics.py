"""Mathematics: what is equal and in form passes; echoes, near misses and towers of powers do not."""

from __future__ import annotations

import random
import re
from fractions import Fraction

import pytest

from train.domains import catalog
from train.domains.base import Family
from train.domains.mathematics import algebra, calculus, numbers, situations
from train.domains.mathematics.forms import FORMS, Form
from train.domains.mathematics.polynomials import as_text, product, value
from train.domains.task import NUM_LEVELS, TaskDomain
from train.transcript import answered
from train.verifiers.expressions import expression

DOMAINS = (*algebra.DOMAINS, *calculus.DOMAINS, *numbers.DOMAINS, *situations.DOMAINS)
BY_NAME = {domain.name: domain for domain in DOMAINS}


def test_all_are_found() -> None:
    """The catalogue has every one of them, under mathematics."""
    found = {domain.name for domain in catalog.by_family()[Family.MATHEMATICS]}
    assert set(BY_NAME) <= found
    assert len(BY_NAME) == 18


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
@pytest.mark.parametrize("level", range(NUM_LEVELS))
def test_the_reference_passes_and_little_else(domain: TaskDomain, level: int) -> None:
    """The reference is worth 1; nothing, any end of the task, and the reference with something beside it are not."""
    for index in range(12):
        item = domain.item(3, index, level)
        assert item == domain.item(3, index, level)
        assert domain.verify(item, domain.reference(item)).score == 1
        task = item.prompt.splitlines()[0]
        words = task.split()
        ends = [" ".join(words[start:]) for start in range(len(words))]
        echoes = [
            end for end in ends if not re.fullmatch(r"-?\d+[.?]?", end)
        ]  # a number may be right by chance
        for wrong in (
            "",
            item.prompt,
            *echoes,
            f"{item.answer} + 1",
            f"{item.answer} or so",
            "9^9^9^9",
            "(" * 900,
        ):
            assert domain.verify(item, answered(wrong)).score == 0, (item.prompt, wrong)


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
def test_no_constant_pays(domain: TaskDomain) -> None:
    """The most frequent answer is right for less than a third of the items of any level."""
    for level in range(NUM_LEVELS):
        answers = [domain.item(7, index, level).answer for index in range(60)]
        assert max(map(answers.count, answers)) < 20


@pytest.mark.parametrize(
    "name",
    [
        "collect",
        "expand",
        "factor",
        "simplify",
        "fractions",
        "integral",
        "series",
        "sequences",
        "prices",
        "units",
    ],
)
def test_levels_are_harder(name: str) -> None:
    """Where a level is more of the same, tasks and answers grow with it; elsewhere another kind of task comes."""
    sizes = []
    for level in range(NUM_LEVELS):
        items = [BY_NAME[f"math_{name}"].item(0, index, level) for index in range(100)]
        sizes.append(sum(len(item.prompt.splitlines()[0]) + len(item.answer) for item in items))
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


FORMED = {
    Form.EXPANDED: (
        "x^2 + 3x + 2",
        ["x^2+3x+2", "2 + 3*x + x**2"],
        ["(x+1)(x+2)", "x^2 + 2x + x + 2", "x*x + 3x + 2 + 0"],
    ),
    Form.FACTORED: (
        "(x + 1)*(x + 2)",
        ["(x+2)(x+1)", "(x+1)*(x+2)", "(2x+2)(x/2+1)"],
        ["x^2+3x+2", "x^2*(1+3/x+2/x^2)", "x*(x+3)+2"],
    ),
    Form.SHORT: ("x - 2", ["x - 2", "-2+x"], ["(x^2-4)/(x+2)", "x - 1 - 1", "x-(2)", "2x - 2 - x"]),
    Form.LOWEST: ("3/4", ["3/4", "3 / 4"], ["6/8", "0.75", "1/2+1/4", "-3/-4", "3/4/1"]),
    Form.NUMBER: ("3/4", ["0.75", "3/4", ".75", "6/8"], ["0.7", "1/2+1/4", "0.75 m", "75%"]),
    Form.NUMBERS: ("1, -2", ["1, -2", "x = 1, y = -2", "(1, -2)"], ["-2, 1", "1", "1, -2, 0", "x=1 y=-2"]),
    Form.ROOTS: (
        "1 + sqrt(2), 1 - sqrt(2)",
        ["1+sqrt(2), 1-sqrt(2)", "x = 1 - 2^(1/2), x = 1 + sqrt(2)"],
        ["1+sqrt(2)", "1+sqrt(2), 1+sqrt(2)", "1+sqrt(2), 1-sqrt(2), 0"],
    ),
    Form.EXPRESSION: (
        "2*x*cos(x^2)",
        ["2*x*cos(x^2)", "\\cos(x^2) \\cdot 2x"],
        ["2*cos(x^2)", "2*x*cos(x^2) + c"],
    ),
}


@pytest.mark.parametrize("form", Form)
def test_forms(form: Form) -> None:
    """A value in the wrong form, or with a part missing, is wrong; another order or spelling is right."""
    reference, right, wrong = FORMED[form]
    assert [text for text in right if not FORMS[form](text, reference)] == []
    assert [text for text in wrong if FORMS[form](text, reference)] == []


def test_polynomials_as_text_are_read_back() -> None:
    """What is printed is the polynomial that was meant, and a product is the product."""
    rng = random.Random(1)
    for _ in range(50):
        one, other = ([rng.randint(-9, 9) for _ in range(3)] for _ in range(2))
        assert expression(as_text(one)).subs("x", 3) == value(one, 3)
        assert value(product(one, other), 5) == value(one, 5) * value(other, 5)


def test_calculus_by_other_means() -> None:
    """sympy finds the limits, integrals and coefficients that the formulas give."""
    import sympy

    x = sympy.Symbol("x")
    for level in range(NUM_LEVELS):
        for index in range(4):
            item = BY_NAME["math_integral"].item(5, index, level)
            task = item.prompt.splitlines()[0].removeprefix("Integrate ").removesuffix(".")
            text, _, bounds = task.partition(" with respect to x from ")
            below, above = map(expression, bounds.split(" to "))
            found = sympy.integrate(expression(text), (x, below, above))
            assert sympy.simplify(found - expression(item.answer)) == 0
            item = BY_NAME["math_limit"].item(5, index, level)
            text, _, to = (
                item.prompt.splitlines()[0].removeprefix("Find the limit of ").partition(" as x goes to ")
            )
            point = sympy.oo if to == "infinity." else expression(to.removesuffix("."))
            assert sympy.limit(expression(text.replace(" / ", "/")), x, point) == expression(item.answer)
            item = BY_NAME["math_series"].item(5, index, level)
            task = item.prompt.splitlines()[0].removeprefix("Find the coefficient of x^")
            power, _, text = task.removesuffix(" around 0.").partition(" in the power series of ")
            series = sympy.series(expression(text), x, 0, int(power) + 1).removeO()
            assert series.coeff(x, int(power)) == expression(item.answer)


def test_worked_numbers() -> None:
    """A determinant, and items whose answers can be had from their own words."""
    assert algebra.determinant([[2, 0, 1], [1, 3, 2], [1, 1, 4]]) == 18
    for index in range(30):
        item = BY_NAME["math_fractions"].item(2, index, 3)
        text = item.prompt.splitlines()[0].removeprefix("Compute ")
        spelled = re.sub(r"(\d+)", r"Fraction(\1)", text)
        assert eval(spelled, {"Fraction": Fraction}) == Fraction(item.answer)
