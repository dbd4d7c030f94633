"""The released artifact is what the released outcomes give, so that whoever changes either has to make it again."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from time import thread_time

import numpy as np
import pytest

import router
from router.arms import Arm, Capabilities, Price
from router.artifact import from_bytes, to_bytes
from router.artifact_header import ArtifactHeader
from router.encoding import feature_names
from router.fit import fit
from router.fit_config import FitConfig
from router.fitted import UNKNOWN_WORDS, FittedModel
from router.outcome_table import OutcomeTable, view_of
from router.prepared import prepare
from router.prompts import DOMAINS
from serving.commands.outcomes_source import RELEASED, read_table

PATH = Path(router.__file__).parent / "data" / "router.npz"
REMEDY = "make it again: `tierwise route fit --out router/data/router.npz`"


@pytest.fixture(scope="module")
def released() -> tuple[FittedModel, ArtifactHeader]:
    return from_bytes(PATH.read_bytes())


@pytest.fixture(scope="module")
def table() -> OutcomeTable:
    return read_table(RELEASED)[0]


def test_it_is_of_the_released_outcomes(
    released: tuple[FittedModel, ArtifactHeader], table: OutcomeTable
) -> None:
    """Its header names the file, the arms, their models and the configuration that the command takes by default."""
    origin, header = read_table(RELEASED)[1], released[1]
    assert header.data_sha256 == origin.data_sha256, REMEDY
    assert (header.arms, header.models, header.embedding) == (table.arms, origin.models, None)
    assert {name: header.recipe[name] for name in asdict(FitConfig())} == asdict(FitConfig()), REMEDY


def test_fitting_again_gives_it(released: tuple[FittedModel, ArtifactHeader], table: OutcomeTable) -> None:
    """The same outcomes give the same model: the same numbers on one kind of processor, near ones on another.

    What is compared is written and read first, as the released one was.
    """
    model, header = released
    again, _ = from_bytes(to_bytes(fit(prepare(table), FitConfig(), version=header.version), header))
    assert again.most_unknown == pytest.approx(model.most_unknown), REMEDY
    assert np.allclose(again.scorer.weights, model.scorer.weights, atol=1e-3), REMEDY
    assert np.array_equal(again.scorer.columns.word_idf, model.scorer.columns.word_idf), REMEDY
    encoded = prepare(table.select(np.arange(0, len(table), 7))).encoded
    for each in encoded:
        assert again.probabilities(each) == pytest.approx(model.probabilities(each), abs=1e-3), REMEDY


def test_it_carries_what_drift_is_measured_against(released: tuple[FittedModel, ArtifactHeader]) -> None:
    """There is a reference for every feature, for unknown words and for each arm's forecasts, and figures twice."""
    header = released[1]
    assert set(header.feature_references) == {*feature_names(), UNKNOWN_WORDS}
    assert set(header.score_references) == set(header.arms)
    for references in (header.feature_references, header.score_references):
        for reference in references.values():
            assert sum(reference.shares) == pytest.approx(1)
            assert reference.num_values == header.num_prompts
    for figures in (header.figures, header.new_domain_figures):
        assert set(figures) == set(header.arms)
        for each in figures.values():
            assert each.calibration_error < each.calibration_noise + 0.05
    assert header.metrics["apgr"] > header.metrics["new_domain_apgr"] > 0.5


def test_what_it_has_seen_is_supported(
    released: tuple[FittedModel, ArtifactHeader], table: OutcomeTable
) -> None:
    """Prompts of its own domains are supported and so is a greeting; a page in another language is not."""
    model = released[0]

    def is_supported(prompt: str) -> bool:
        (encoded,) = prepare(table_of_one(prompt, table)).encoded
        return model.is_supported(encoded, float(model.scorer.columns.rarity(encoded)[0]))

    assert {table.domains[place] for place in range(len(table))} == set(DOMAINS)
    assert all(is_supported(prompt) for prompt in table.prompts[::20])
    assert is_supported("hi")
    assert not is_supported("Ἄνδρα μοι ἔννεπε, Μοῦσα, πολύτροπον, ὃς μάλα πολλὰ πλάγχθη " * 5)


def table_of_one(prompt: str, table: OutcomeTable) -> OutcomeTable:
    return replace(table.select(np.array([0])), prompts=(prompt,))


def test_forecasts_are_quick(released: tuple[FittedModel, ArtifactHeader]) -> None:
    """A forecast for 4,000 characters takes about a millisecond: the quickest of many, since machines are busy."""
    arms = [
        Arm(
            name=name,
            tier=name,
            price=Price(input=1, output=1),
            capabilities=Capabilities(context_tokens=9),
            strength=0,
        )
        for name in released[1].arms
    ]
    view = view_of(("Compare the two plans below, item by item, and say which costs less. " * 60)[:4000])
    quickest = 1.0
    for _ in range(50):
        started = thread_time()
        released[0].forecast(view, arms)
        quickest = min(quickest, thread_time() - started)
    assert quickest < 1.5e-3
