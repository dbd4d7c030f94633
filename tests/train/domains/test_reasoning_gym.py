"""reasoning-gym's tasks, judged more strictly than they judge themselves."""

from __future__ import annotations

import decimal
import subprocess
import sys

import pytest

from train.domains import catalog
from train.domains import reasoning_gym_levels as levels
from train.domains.reasoning_gym import ReasoningGymTask
from train.transcript import answered


@pytest.mark.parametrize(
    "name", ["chain_sum", "gcd", "word_sorting", "binary_matrix", "simple_equations", "acre"]
)
def test_a_reference_passes_and_nothing_around_it_does(name: str) -> None:
    """The stored answer, alone or labelled, is right; hidden in a line, or before another last line, it is not."""
    task = ReasoningGymTask(name)
    for level in range(task.num_levels):
        item = task.item(5, 1, level)
        assert task.verify(item, task.reference(item)).passed
        assert task.verify(item, answered(f"Let me see.\nAnswer: {item.answer}")).passed
        for text in ("", f"It may be {item.answer} or not.", f"{item.answer}\nNo, I give up.", item.prompt):
            verdict = task.verify(item, answered(text))
            assert (verdict.score, verdict.passed) == (0.0, False), text


def test_marks_that_are_not_full_are_nothing() -> None:
    """chain_sum's own scorer pays a part for a right number among others; here that is 0."""
    task = ReasoningGymTask("chain_sum")
    item = task.item(1, 0, 2)
    crowded = answered(f"1 {item.answer}")
    assert 0 < task.marks(item, crowded) < 1
    assert task.verify(item, crowded).score == 0


@pytest.mark.parametrize(
    "name", ["binary_matrix", "countdown", "simple_integration", "polynomial_multiplication"]
)
def test_an_answer_is_never_run(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Scorers that evaluate answers see none that could call or reach anything."""
    task = ReasoningGymTask(name)
    item = task.item(1, 0, 0)
    for text in (
        "print('RAN')",
        "__import__('os').system('echo RAN')",
        "(lambda: print('RAN'))()",
        "[print('RAN')]",
    ):
        assert not task.verify(item, answered(text)).passed
    assert "RAN" not in "".join(capfd.readouterr())


def test_a_task_leaves_the_precision_of_decimals_alone() -> None:
    """decimal_arithmetic sets it for the whole process; items of other tasks changed with the order of calls."""
    before = decimal.getcontext().prec
    chained = ReasoningGymTask("decimal_chain_sum").item(1, 0, 1)
    other = ReasoningGymTask("decimal_arithmetic")
    item = other.item(1, 0, 0)
    assert other.verify(item, other.reference(item)).passed
    assert decimal.getcontext().prec == before
    assert ReasoningGymTask("decimal_chain_sum").item(1, 0, 1) == chained


def test_an_item_of_another_process_is_not_judged_by_guess() -> None:
    """Where the prompt is not what is generated here, there is no verdict."""
    task = ReasoningGymTask("gcd")
    item = task.item(1, 0, 0)
    other = task.item(2, 0, 0)
    mixed = type(item)(domain="gcd", level=0, seed=1, index=0, prompt=other.prompt, answer=other.answer)
    with pytest.raises(ValueError, match="another item"):
        task.verify(mixed, answered(other.answer))


def test_levels_by_length_are_ordered() -> None:
    """Of a task without a knob, a higher level has the longer question."""
    task = ReasoningGymTask("gsm_symbolic")
    for index in range(5):
        lengths = [len(task.item(3, index, level).prompt) for level in range(3)]
        assert lengths == sorted(lengths)


def test_every_task_is_here_once_and_names_cost_no_import() -> None:
    """All 105 are domains, and listing them imports neither reasoning-gym nor sympy nor torch."""
    assert len(levels.NAMES) == len(set(levels.NAMES)) == 105
    assert set(levels.NAMES) <= set(catalog.domains())
    script = (
        "import sys, train.domains.catalog as c; c.domains();"
        "print([name for name in ('reasoning_gym', 'sympy', 'torch', 'ortools', 'manifold3d') if name in sys.modules])"
    )
    asked = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == "[]"


def test_settings_name_real_knobs() -> None:
    """Every knob of the table is a field of its task's configuration, and every level of it is accepted."""
    from reasoning_gym.factory import DATASETS

    for name in levels.KNOBS:
        _, config = DATASETS[name]
        for level in range(levels.num_levels(name)):
            config(**levels.settings(name, level), seed=1, size=10).validate()
        lengths = {len(values) for values in levels.KNOBS[name].values()}
        assert len(lengths) == 1, name
        assert min(lengths) >= 3, name
