"""Questions on data: answers agree with a second computation, and nothing near them passes."""

from __future__ import annotations

import csv
import io
import re
import statistics
from fractions import Fraction

import pytest

from train.domains import catalog
from train.domains.base import Family, Item
from train.domains.data import comparing, describing, programs, questions
from train.domains.data.comparing import welch_t
from train.domains.data.describing import quantile
from train.domains.task import TaskDomain
from train.sandbox.probe import probe
from train.transcript import answered

DOMAINS = (*questions.DOMAINS, *describing.DOMAINS, *comparing.DOMAINS)
EVERY = (*DOMAINS, *programs.DOMAINS)
BY_NAME = {domain.name.partition("_")[2]: domain for domain in EVERY}


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_all_are_found() -> None:
    """The catalogue has all eight, under data science."""
    assert len(BY_NAME) == 8
    assert {domain.name for domain in EVERY} <= {
        domain.name for domain in catalog.by_family()[Family.DATA_SCIENCE]
    }


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
def test_the_reference_passes_and_near_misses_do_not(domain: TaskDomain) -> None:
    """At every level the reference is worth 1; nothing, the task, all candidates, and a number beside it are not."""
    for level in range(domain.num_levels):
        for index in range(15):
            item = domain.item(3, index, level)
            assert item == domain.item(3, index, level)
            assert domain.verify(item, domain.reference(item)).score == 1
            wrong = [
                "",
                item.prompt,
                item.prompt.splitlines()[-1],
                f"{item.answer} or {item.answer}",
                f"not {item.answer}",
            ]
            if item.data["wanted"] == "number":
                step = 10.0 ** -int(str(item.data["decimals"]))
                wrong += [
                    str(float(item.answer) + 2.5 * step),
                    str(float(item.answer) - 2.5 * step),
                    f"{item.answer} %",
                ]
            elif item.data["wanted"] == "label":
                wrong += [", ".join(map(str, item.data["labels"]))]  # type: ignore[arg-type]
            else:
                ids = [row["id"] for row in rows_of(item.prompt.rpartition("\nWhich")[0])]
                wrong += [", ".join(ids), ids[0] if item.answer != ids[0] else ids[1], f"{item.answer}, z9"]
            for text in wrong:
                assert domain.verify(item, answered(text)).score == 0, (item.prompt, text)


@pytest.mark.parametrize("domain", EVERY, ids=lambda domain: domain.name)
def test_levels_are_harder_and_no_constant_pays(domain: TaskDomain) -> None:
    """The last level has a longer task or answer than the first, and no answer is right for half of the items."""
    sizes = []
    for level in range(domain.num_levels):
        items = [domain.item(7, index, level) for index in range(40)]
        answers = [item.answer for item in items]
        assert max(map(answers.count, answers)) <= 20
        sizes.append(sum(len(item.prompt) + len(item.answer) for item in items))
    if domain.name not in {"data_groups"}:  # its last level has two groups and asks for a statistic of them
        assert sizes[0] < sizes[-1]


def test_sums_by_other_means() -> None:
    """csv and fractions find what the aggregates say."""
    for index in range(20):
        item = BY_NAME["aggregate"].item(2, index, 1)
        table, _, question = item.prompt.partition("\nWhat")
        [city] = re.findall(r"with city (\w+)\?", question)
        assert int(item.answer) == sum(int(row["quantity"]) for row in rows_of(table) if row["city"] == city)
        item = BY_NAME["join"].item(2, index, 3)
        orders, prices = (
            part.partition(":\n")[2] for part in item.prompt.partition("\nWhat")[0].split("\n\n")
        )
        price = {row["product"]: int(row["price"]) for row in rows_of(prices) if row["price"]}
        [city] = re.findall(r"of city (\w+)\?", item.prompt)
        assert int(item.answer) == sum(
            int(row["quantity"]) * price.get(row["product"], 0)
            for row in rows_of(orders)
            if row["city"] == city
        )
        item = BY_NAME["series"].item(2, index, 2)
        values = [int(row["value"]) for row in rows_of(item.prompt.partition("\nWhat")[0])]
        falls = [100 * (a - b) / a for i, a in enumerate(values) for b in values[i:]]
        assert max(falls) == pytest.approx(float(item.answer), abs=0.006)


def test_quantiles_and_welch_are_numpys_and_worked_by_hand() -> None:
    """Linear interpolation as numpy has it; a t statistic worked by hand."""
    import numpy as np

    values = [3, 1, 4, 1, 5, 9, 2, 6]
    for share in (0, 1, 10, 25, 50, 90, 100):
        assert float(quantile(values, Fraction(share, 100))) == pytest.approx(np.percentile(values, share))
    # Means 2 and 5, variances 1 and 4, three each: −3 / sqrt(1/3 + 4/3).
    assert welch_t([1, 2, 3], [3, 5, 7]) == pytest.approx(-3 / (5 / 3) ** 0.5)


def test_the_odd_group_is_the_one_that_is_far_off() -> None:
    """Where a group has another mean, it is the one farthest from the median of means; where none has, none is."""
    for index in range(30):
        item = BY_NAME["groups"].item(4, index, 1)
        rows = rows_of(item.prompt.partition("\nWhich")[0])
        means = {
            name: statistics.fmean(int(row["value"]) for row in rows if row["group"] == name)
            for name in {row["group"] for row in rows}
        }
        middle = statistics.median(means.values())
        farthest = max(means, key=lambda name: abs(means[name] - middle))
        assert item.answer == (farthest if abs(means[farthest] - middle) > 8 else "none")


@pytest.mark.skipif(probe().isolation is None, reason="nothing isolates here")
def test_code_on_hidden_tables() -> None:
    """The reference passes at every level; a constant, the shown table's value and a crash do not."""
    domain = BY_NAME["code"]
    for level in range(domain.num_levels):
        item = domain.item(1, 0, level)
        assert domain.verify(item, domain.reference(item)).score == 1
        assert domain.verify(item, answered(f"def answer(text):\n    return {_first(item)!r}")).score == 0
    assert domain.verify(item, answered("def answer(text):\n    raise SystemExit")).score == 0
    assert domain.verify(item, answered("import pandas\ndef answer(text):\n    return 0")).score == 0


def _first(item: Item) -> object:
    cases = item.data["cases"]
    assert isinstance(cases, list)
    return cases[0][1]  # type: ignore[index]
