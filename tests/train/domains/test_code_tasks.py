"""Tasks on code: references pass at every level; constants, echoes, near misses and cheats do not."""

from __future__ import annotations

import ast
import dataclasses
import random
import re

import pytest

from train.domains import catalog
from train.domains.base import Family
from train.domains.code import efficiency, patterns, reading, repairing, testing, writing
from train.domains.code.composing import composed, fails, loaded
from train.domains.code.mutants import broken, mutants, survivors
from train.domains.code.steps import ENDS, STEPS, Kind
from train.domains.task import TaskDomain
from train.sandbox.probe import probe
from train.transcript import Message, Transcript, answered

DOMAINS = (
    *writing.DOMAINS,
    *repairing.DOMAINS,
    *testing.DOMAINS,
    *reading.DOMAINS,
    *patterns.DOMAINS,
    *efficiency.DOMAINS,
)
BY_NAME = {domain.name: domain for domain in DOMAINS}
EACH = [(domain, level) for domain in DOMAINS for level in (0, domain.num_levels - 1)]
sandboxed = pytest.mark.skipif(probe().isolation is None, reason="nothing isolates here")


def test_all_are_found() -> None:
    """The catalogue has every one of them, under code."""
    assert len(BY_NAME) == 10
    assert set(BY_NAME) <= {domain.name for domain in catalog.by_family()[Family.CODE]}


@sandboxed
@pytest.mark.parametrize(("domain", "level"), EACH, ids=lambda value: getattr(value, "name", value))
def test_the_reference_passes_and_texts_do_not(domain: TaskDomain, level: int) -> None:
    """At the easiest and the hardest level the reference is worth 1; nothing, the task, and words around it are not."""
    item = domain.item(3, 1, level)
    assert item == domain.item(3, 1, level)
    assert item.prompt != domain.item(4, 1, level).prompt
    assert domain.verify(item, domain.reference(item)).score == 1
    for wrong in (
        "",
        "0",
        item.prompt,
        f"Perhaps {item.answer}, or else something different.",
        "(" * 900,
        "\0",
    ):
        assert domain.verify(item, answered(wrong)).score == 0, wrong


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
def test_levels_are_harder_and_answers_are_many(domain: TaskDomain) -> None:
    """A level more asks for as long an answer or a longer task, on average, and no answer is frequent."""
    sizes = []
    for level in range(domain.num_levels):
        items = [domain.item(7, index, level) for index in range(30)]
        answers = [item.answer for item in items]
        assert max(map(answers.count, answers)) <= 15
        sizes.append(sum(len(item.answer) + len(item.prompt) for item in items))
    assert sizes[0] < sizes[-1]


@pytest.mark.parametrize("kind", Kind)
def test_every_step_runs_on_what_is_drawn(kind: Kind) -> None:
    """Composed functions are deterministic, no step is idle, and neither a constant nor the identity fits the cases."""
    seen: set[str] = set()
    for seed in range(60):
        made = composed(random.Random(seed), kind, 2)
        assert made == composed(random.Random(seed), kind, 2)
        seen |= set(made.words)
        assert not fails(loaded(made.source, made.name), made.hidden)
        assert fails(lambda x: x, made.hidden)
        for _, value in made.hidden:
            assert fails(lambda x, value=value: value, made.hidden)  # type: ignore[misc]
        for place in range(2):
            without = made.expressions[:place] + made.expressions[place + 1 :]
            source = dataclasses.replace(made, expressions=without).source
            assert fails(loaded(source, made.name), made.hidden)
    steps = len(STEPS[kind]) + len(ENDS[kind])
    assert len(seen) > steps / 2


def test_mutants_are_wrong_and_broken_ones_raise() -> None:
    """Every mutant fails a hidden case, every broken source raises, and neither is the function."""
    made = composed(random.Random(5), Kind.LIST, 3)
    assert len(mutants(made)) > 2
    for source in mutants(made):
        assert fails(loaded(source, made.name), made.hidden)
    assert broken(made)
    assert survivors([*mutants(made), made.source], made.name, made.hidden) == [made.source]


@sandboxed
def test_the_buggy_function_itself_fails() -> None:
    """Giving the bug back, or the broken attempt, is wrong."""
    item = BY_NAME["code_fix"].item(1, 0, 1)
    bug = item.prompt.partition("has a bug:\n")[2].partition("\nExamples")[0]
    assert not BY_NAME["code_fix"].verify(item, answered(bug)).passed
    item = BY_NAME["code_repair"].item(1, 0, 1)
    attempt = item.prompt.partition("first attempt was\n")[2].partition("\nand ")[0]
    verdict = BY_NAME["code_repair"].verify(item, answered(attempt))
    assert (verdict.score, verdict.parts) == (0, {})
    assert "Error" in verdict.evidence


@sandboxed
def test_recovery_is_told_from_being_right_at_once() -> None:
    """Wrong then right has recovered; right twice has not; right then wrong is wrong, and neither is recovered."""
    domain = BY_NAME["code_repair"]
    item = domain.item(2, 0, 0)
    function = item.data["function"]
    wrong, right = f"def {function}(x):\n    return y", item.answer
    for first, second, score, recovered in (
        (wrong, right, 1, 1),
        (right, right, 1, 0),
        (right, wrong, 0, 0),
        (wrong, wrong, 0, 0),
    ):
        turns = (Message("assistant", first), Message("user", "It failed."), Message("assistant", second))
        verdict = domain.verify(item, Transcript(turns))
        assert (verdict.score, verdict.parts["recovered"]) == (score, recovered)
    assert domain.verify(item, Transcript((Message("assistant", right), Message("assistant", "")))).score == 0


@sandboxed
def test_a_gap_takes_one_expression_and_no_way_out() -> None:
    """What closes the bracket, adds a line, leaves x aside or ends the program is not taken."""
    domain = BY_NAME["code_complete"]
    item = domain.item(1, 3, 0)
    assert domain.verify(item, answered(f"`{item.answer}`")).passed
    for wrong in (
        "x",
        "None",
        f"{item.answer}) or (x",
        f"{item.answer}; x",
        "x if __import__('os')._exit(0) else x",
        "(yield x)",
    ):
        assert not domain.verify(item, answered(wrong)).passed


def test_asserts_are_read_and_not_run() -> None:
    """Only asserts of literals count: no code that could look at what it tests, none too many, none that is wrong."""
    domain = BY_NAME["code_tests"]
    item = domain.item(1, 2, 3)
    name = item.data["function"]
    assert domain.verify(item, answered(f"```python\n{item.answer}\n```")).passed
    for wrong in (
        f"import inspect\n{item.answer}",
        f"assert 'x' in open(__file__).read()\n{item.answer}",
        f"assert {name}(__import__('os').getpid()) == 1",
        f"assert {name}([1, 2]) != {name}([2, 1])",
        f"assert {name}([3]) == 'never'",
        f"assert {name}({[0] * 400}) == 0",
        f"assert {name}(9 ** 9 ** 9) == 0",
        "\n".join([item.answer] * 3),
        "assert False",
        f"for _ in [1]:\n    {item.answer.splitlines()[0]}",
    ):
        assert domain.verify(item, answered(wrong)).score == 0, wrong
    needless = item.data["mutants"]
    assert isinstance(needless, list)
    weak = next(case for case in ("[]", "''", "0") if _holds(item.data["source"], name, case))
    value = loaded(str(item.data["source"]), str(name))(ast.literal_eval(weak))
    assert not domain.verify(item, answered(f"assert {name}({weak}) == {value!r}")).passed


def _holds(source: object, name: object, text: str) -> bool:
    try:
        loaded(str(source), str(name))(ast.literal_eval(text))
    except (TypeError, AttributeError, ValueError, IndexError):
        return False
    return True


def test_programs_print_what_python_says() -> None:
    """A loop, worked out by hand."""
    assert reading.printed("total = 3\nfor i in range(1, 6, 2):\n    total += i * 2\nprint(total)") == "21"
    item = BY_NAME["code_output"].item(1, 0, 3)
    for wrong in (item.answer + " 0", item.answer[:-1], "print(0)"):
        assert BY_NAME["code_output"].verify(item, answered(wrong)).score == 0


@sandboxed
@pytest.mark.training
def test_expressions_that_match_all_or_hang_fail() -> None:
    """Everything, nothing, the examples listed, an expression that takes exponential time, and one that is none."""
    domain = BY_NAME["code_regex"]
    for level in range(domain.num_levels):
        item = domain.item(2, 3, level)
        shown = re.findall(r"^'(.*)' matches$", item.prompt, re.M)
        listed = "|".join(map(re.escape, shown))
        for wrong in (".*", "[a-z0-9]+", listed, "(.*)*(.*)*(.*)*(.*)*$", "(", "a{9999999999}"):
            assert domain.verify(item, answered(wrong)).score == 0, wrong
        assert domain.verify(item, answered(f"`{item.answer}`")).score == 1


NAIVE = {
    "primes": (
        "def primes(n):\n"
        "    return sum(1 for p in range(2, n + 1) if p % {k} == 1 and all(p % d for d in range(2, p)))"
    ),
    "pairs": "def pairs(v):\n    return sum(1 for i in range(len(v)) for j in range(i) if v[i] + v[j] == {k})",
    "rising": (
        "def rising(v):\n    best = []\n    for i, x in enumerate(v):\n"
        "        best.append(1 + max([b for b, y in zip(best, v) if y < x], default=0))\n"
        "    return {k} * max(best, default=0)"
    ),
}


@sandboxed
@pytest.mark.training
@pytest.mark.parametrize(("level", "name"), list(enumerate(NAIVE)))
def test_the_plain_way_is_right_and_too_slow(level: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each level one: right on all small cases, and stopped on the large ones."""
    domain = BY_NAME["code_efficiency"]
    item = next(
        item for index in range(60) if (item := domain.item(1, index, level)).data["function"] == name
    )
    naive = answered(NAIVE[name].format(k=item.data["k"]))
    verdict = domain.verify(item, naive)
    assert not verdict.passed
    assert "too much time" in verdict.evidence or "out of time" in verdict.evidence
    monkeypatch.setattr(efficiency, "NUM_LARGE", 0)
    assert domain.verify(item, naive).passed
