"""Boosted trees: they find what a line cannot, leave chance alone, and are read the same one by one and at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from router.boosting import BoostConfig, Trees, fit_trees

CONFIG = BoostConfig(num_trees=60)


def exclusive_or(num: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Success is likely where exactly one of two features is positive: no line tells."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(num, 5)).astype(np.float32)
    p = np.where((x[:, 0] > 0) != (x[:, 1] > 0), 0.85, 0.15)
    return x, (generator.random(num) < p).astype(float)


def test_finds_an_interplay() -> None:
    """On data they have not seen, trees tell the two cases apart that a line cannot."""
    x, y = exclusive_or(2000, 0)
    trees = fit_trees(x, y, np.zeros(2000), CONFIG, np.random.default_rng(0))
    new_x, new_y = exclusive_or(1000, 1)
    scores = trees.staged(new_x)[-1]
    assert np.mean((scores > 0) == (new_y > 0.5)) > 0.8


def test_adds_only_what_the_offsets_lack() -> None:
    """Where the offsets say all there is to say, trees change held-out scores by little."""
    x, y = exclusive_or(2000, 0)
    truth = np.where((x[:, 0] > 0) != (x[:, 1] > 0), np.log(0.85 / 0.15), -np.log(0.85 / 0.15))
    without = fit_trees(x, y, np.zeros(2000), CONFIG, np.random.default_rng(0))
    beside = fit_trees(x, y, truth, CONFIG, np.random.default_rng(0))
    new_x, _ = exclusive_or(500, 1)
    assert np.abs(beside.staged(new_x)[-1]).mean() < 0.3 * np.abs(without.staged(new_x)[-1]).mean()


def test_one_step_by_hand() -> None:
    """One feature, one question: leaves are rate · Σ(y − ½) / (n/4 + penalty) on either side."""
    x = np.repeat(np.array([[0.0], [1.0]], dtype=np.float32), 20, axis=0)
    y = np.repeat([0.0, 1.0], 20)
    config = BoostConfig(num_trees=1, learning_rate=0.1, penalty=3.0, feature_share=1.0, row_share=2.0)
    trees = fit_trees(x, y, np.zeros(40), config, np.random.default_rng(0))
    assert trees(x[0]) == pytest.approx(-0.1 * 10 / (5 + 3))
    assert trees(x[-1]) == pytest.approx(0.1 * 10 / (5 + 3))


def test_counts_scale_gradients_and_curvatures() -> None:
    """Everything counted twice, under twice the penalty, is the same trees."""
    x, y = exclusive_or(300, 5)
    once = fit_trees(x, y, np.zeros(300), CONFIG, np.random.default_rng(0))
    twice = fit_trees(
        x,
        y,
        np.zeros(300),
        replace(CONFIG, penalty=2 * CONFIG.penalty),
        np.random.default_rng(0),
        counts=np.full(300, 2.0),
    )
    assert np.array_equal(once.features, twice.features)
    assert twice.leaves == pytest.approx(once.leaves, abs=1e-6)


def test_staged_sums_are_the_trees_one_after_the_other() -> None:
    """The last stage is what one request at a time gives, the first is nothing, and a stage is a shorter ensemble."""
    x, y = exclusive_or(300, 2)
    trees = fit_trees(x, y, np.zeros(300), CONFIG, np.random.default_rng(3))
    stages = trees.staged(x)
    assert stages.shape == (61, 300)
    assert np.all(stages[0] == 0)
    assert stages[-1] == pytest.approx([trees(row) for row in x], abs=1e-4)
    shorter = Trees(trees.features[:7], trees.thresholds[:7], trees.leaves[:7])
    assert stages[7] == pytest.approx([shorter(row) for row in x], abs=1e-4)


def test_no_trees() -> None:
    """An ensemble of none adds nothing."""
    x, y = exclusive_or(50, 0)
    trees = fit_trees(x, y, np.zeros(50), BoostConfig(num_trees=0), np.random.default_rng(0))
    assert trees(x[0]) == 0.0
    assert trees.staged(x).shape == (1, 50)


def test_constant_features_and_values_beyond_the_data() -> None:
    """A feature that never varied is no fault, and a value that was never seen falls on one side."""
    x, y = exclusive_or(200, 0)
    x[:, 2] = 7.0
    trees = fit_trees(x, y, np.zeros(200), CONFIG, np.random.default_rng(0))
    assert np.isfinite(trees(np.full(5, 1e30, dtype=np.float32)))
