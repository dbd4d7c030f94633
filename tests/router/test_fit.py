"""Fitting on outcomes whose truth is known: what is learnt, what is refused, and that nothing leaks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from router.arms import Arm, Capabilities, Price
from router.boosting import BoostConfig
from router.calibration import expected_calibration_error
from router.encoding import encode
from router.fit import deal, fit, predict_held_out
from router.fit_config import LEAST_PROMPTS, FitConfig, FitRefusedError
from router.fitted import FittedModel, UnfittedArmError
from router.outcome_table import OutcomeTable, view_of
from router.prepared import Prepared, prepare
from router.ranking import auc
from router.robustness import REWRITINGS

EASY = "name colour animal city river song fruit friend morning holiday".split()  # noqa: SIM905 (reads better)
HARD = "prove integral matrix eigenvalue theorem compute modulo lemma divisible inequality".split()  # noqa: SIM905
FILLER = "the a of in for with about some this that these those my your one two it is are".split()  # noqa: SIM905
CONFIG = FitConfig(num_folds=3, num_copies=1, max_steps=30, boosting=BoostConfig(num_trees=20))


def known_truth(num: int, seed: int = 0) -> tuple[OutcomeTable, np.ndarray]:
    """Prompts of easy and hard words: the weak arm fails as the share of hard words grows, the strong one seldom."""
    generator = np.random.default_rng(seed)
    hardness = generator.random(num)
    prompts = tuple(
        " ".join(
            str(generator.choice(HARD if generator.random() < share else EASY))
            if generator.random() < 0.6
            else str(generator.choice(FILLER))
            for _ in range(20)
        )
        for share in hardness
    )
    truth = np.stack((1 - 0.9 * hardness, 0.95 - 0.1 * hardness), axis=1)
    tokens = np.stack((20 + 100 * hardness, 30 + 200 * hardness), axis=1)
    table = OutcomeTable(
        prompts=prompts,
        domains=tuple("hard" if share > 0.5 else "easy" for share in hardness),
        arms=("weak", "strong"),
        successes=(generator.random((num, 2)) < truth).astype(float),
        num_output_tokens=tokens,
        costs=np.full((num, 2), np.nan),
    )
    return table, truth


TABLE, TRUTH = known_truth(900)
ONCE = np.ones((1, 900))


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    return prepare(TABLE)


@pytest.fixture(scope="module")
def model(prepared: Prepared) -> FittedModel:
    return fit(prepared, CONFIG, version="test-1")


def test_learns_what_is_there(prepared: Prepared) -> None:
    """Held-out probabilities are near the truth they were drawn from, in order and in height."""
    held_out = predict_held_out(prepared, CONFIG)
    assert np.corrcoef(held_out[:, 0], TRUTH[:, 0])[0, 1] > 0.8
    assert auc(held_out[:, 0], TABLE.successes[:, 0], ONCE)[0] > 0.7
    for arm in range(2):
        assert expected_calibration_error(held_out[:, arm], TABLE.successes[:, arm]) < 0.06


def test_chance_is_not_learnt() -> None:
    """Where outcomes are coins the held-out probabilities rank them no better than chance does: nothing leaks."""
    generator = np.random.default_rng(1)
    coins = replace(TABLE, successes=generator.integers(0, 2, TABLE.successes.shape).astype(float))
    held_out = predict_held_out(prepare(coins), CONFIG)
    assert auc(held_out[:, 0], coins.successes[:, 0], ONCE)[0] == pytest.approx(0.5, abs=0.08)


def test_forecasts_arms_by_name(model: FittedModel) -> None:
    """The model forecasts in the arms' own order, and says of an arm that it was not fitted on what to do."""
    weak, strong, other = (
        Arm(
            name=name,
            tier=name,
            price=Price(input=1, output=1),
            capabilities=Capabilities(context_tokens=100),
            strength=0,
        )
        for name in ("weak", "strong", "other")
    )
    view = view_of(" ".join(HARD))
    forecast = model.forecast(view, (strong, weak))
    assert list(forecast) == ["strong", "weak"]
    assert forecast["weak"].success_probability < 0.5 < forecast["strong"].success_probability
    model.check((weak, strong))
    with pytest.raises(UnfittedArmError, match=r"not other.*fit again"):
        model.check((weak, other))


def test_hard_words_are_what_makes_it_hard(model: FittedModel) -> None:
    """The explanation names words as what lowers the weak arm's score, and reasoning words among the structure."""
    hard, easy = model.contributions(view_of(" ".join(HARD))), model.contributions(view_of(" ".join(EASY)))
    assert hard["words"] > 0 > easy["words"]
    assert hard["reasoning"] > easy["reasoning"]


def test_expected_tokens_follow_the_outcomes(model: FittedModel, prepared: Prepared) -> None:
    """Expected tokens have the outcomes' mean, rise with hardness, and never exceed the most that was seen."""
    arm = replace_arm("strong")
    expected = [
        model.forecast(TABLE.view(place), (arm,))["strong"].num_output_tokens for place in range(0, 900, 3)
    ]
    assert np.mean(expected) == pytest.approx(TABLE.num_output_tokens[:, 1].mean(), rel=0.1)
    hard, easy = (model.forecast(view_of(" ".join(words)), (arm,))["strong"] for words in (HARD, EASY))
    assert easy.num_output_tokens < hard.num_output_tokens <= 230


def replace_arm(name: str) -> Arm:
    return Arm(
        name=name,
        tier=name,
        price=Price(input=1, output=1),
        capabilities=Capabilities(context_tokens=9),
        strength=0,
    )


def test_foreign_prompts_are_not_supported(model: FittedModel) -> None:
    """A prompt of unknown words is out of distribution; the outcomes' own prompts are not, but for one in a hundred."""
    arm = replace_arm("weak")
    assert not model.forecast(view_of("zxq wvut grmpf snrk blorp fnord quux"), (arm,))["weak"].is_supported
    supported = [model.forecast(TABLE.view(place), (arm,))["weak"].is_supported for place in range(0, 900, 5)]
    assert np.mean(supported) > 0.95


def test_same_outcomes_same_model(prepared: Prepared, model: FittedModel) -> None:
    """A fit is a function of the outcomes and the configuration."""
    again = fit(prepared, CONFIG, version="test-1")
    assert np.array_equal(again.scorer.weights, model.scorer.weights)
    for one, other in zip(again.by_arm, model.by_arm, strict=True):
        assert np.array_equal(one.trees.leaves, other.trees.leaves)
        assert np.array_equal(one.calibration.probabilities, other.calibration.probabilities)


def test_near_duplicates_share_a_fold() -> None:
    """A prompt that occurs twice is never on both sides."""
    doubled = prepare(TABLE.select(np.concatenate((np.arange(300), np.arange(300)))))
    fold_of = deal(doubled, CONFIG)
    assert np.array_equal(fold_of[:300], fold_of[300:])


def test_arm_that_was_not_tried_everywhere() -> None:
    """An arm with outcomes of a part of the prompts is fitted on that part."""
    successes = TABLE.successes.copy()
    successes[::2, 1] = np.nan
    fitted = fit(prepare(replace(TABLE, successes=successes)), CONFIG, version="partial")
    assert np.all(np.isfinite(fitted.scorer.weights))
    assert 0.7 < fitted.probabilities(prepare(TABLE.select(np.array([0]))).encoded[0])[1] < 1.0


def test_too_few_outcomes() -> None:
    """A small table is refused with the number that would do."""
    small = prepare(TABLE.select(np.arange(LEAST_PROMPTS - 1)))
    with pytest.raises(FitRefusedError, match=rf"199 outcomes of arm 'weak' .* at least {LEAST_PROMPTS}"):
        fit(small, CONFIG, version="x")


@pytest.mark.parametrize(("value", "kind"), [(1.0, "failures"), (0.0, "successes")])
def test_one_class_only(prepared: Prepared, value: float, kind: str) -> None:
    """An arm that always, or never, succeeded has nothing to learn from, and the refusal says what is missing."""
    successes = TABLE.successes.copy()
    successes[:, 1] = value
    with pytest.raises(FitRefusedError, match=rf"'strong' has only 0 {kind}"):
        fit(replace(prepared, table=replace(TABLE, successes=successes)), CONFIG, version="x")


def test_manners_say_nothing_of_the_task(prepared: Prepared) -> None:
    """A model that was fitted on copies changes its mind less where a prompt is wrapped in words it has not seen."""
    wrap = REWRITINGS["both"]
    encoded = [encode(view_of(*wrap(prompt))) for prompt in TABLE.prompts[::9]]
    moved = []
    for num_copies in (0, 3):
        fitted = fit(prepared, replace(CONFIG, num_copies=num_copies), version="copies")
        plain = np.array([fitted.probabilities(prepared.encoded[place]) for place in range(0, 900, 9)])
        wrapped = np.array([fitted.probabilities(each) for each in encoded])
        moved.append(float(np.abs(wrapped - plain).mean()))
    assert moved[1] < 0.7 * moved[0]
