"""Logistic regression: the optimum is one, and agrees with closed forms and with Newton on dense data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.encoding import Row
from router.logistic import fit_logistic, minimize, stack_rows


def dense_rows(matrix: np.ndarray) -> list[Row]:
    return [Row(np.flatnonzero(line), line[np.flatnonzero(line)].astype(np.float32)) for line in matrix]


def newton(matrix: np.ndarray, targets: np.ndarray, penalty: float) -> np.ndarray:
    """The slow reference: Newton's method with the full Hessian."""
    wide = np.column_stack((matrix, np.ones(len(matrix))))
    ridge = np.diag([penalty] * matrix.shape[1] + [0.0])
    point = np.zeros(wide.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-wide @ point))
        hessian = wide.T @ (wide * (p * (1 - p))[:, None]) + ridge
        point -= np.linalg.solve(hessian, wide.T @ (p - targets) + ridge @ point)
    return point


def test_equals_newton() -> None:
    """On a small dense problem with soft targets L-BFGS reaches what Newton's method reaches."""
    generator = np.random.default_rng(0)
    matrix = np.where(generator.random((60, 7)) < 0.6, generator.normal(size=(60, 7)), 0.0)
    targets = generator.random(60)
    rows = stack_rows(dense_rows(matrix))
    weights, intercept = fit_logistic(rows, targets, penalty=0.7, max_steps=500)
    assert rows.names.tolist() == list(range(7))
    assert np.append(weights, intercept) == pytest.approx(newton(matrix, targets, 0.7), abs=5e-3)


def test_a_row_that_counts_twice_is_there_twice() -> None:
    """Counts say how often a row is there, and a half twice is once."""
    generator = np.random.default_rng(3)
    matrix, targets = generator.normal(size=(40, 3)), generator.integers(0, 2, 40).astype(float)
    counts = generator.integers(1, 4, 40)
    counted = fit_logistic(
        stack_rows(dense_rows(matrix)), targets, counts=counts.astype(float), penalty=0.7, max_steps=500
    )
    halves = np.repeat(matrix, 2 * counts, axis=0)
    repeated = fit_logistic(
        stack_rows(dense_rows(halves)),
        np.repeat(targets, 2 * counts),
        counts=np.full(len(halves), 0.5),
        penalty=0.7,
        max_steps=500,
    )
    assert counted[0] == pytest.approx(repeated[0], abs=1e-3)
    assert counted[1] == pytest.approx(repeated[1], abs=1e-3)


def test_without_columns_it_is_the_share() -> None:
    """Rows that hold nothing leave the intercept, which is the log odds of the share."""
    empty = Row(np.array([], dtype=np.int64), np.array([], dtype=np.float32))
    one = Row(np.array([5]), np.array([1e-6], dtype=np.float32))
    weights, intercept = fit_logistic(
        stack_rows([empty, one, empty, empty]), np.array([1.0, 0, 0, 0]), penalty=1.0
    )
    assert weights == pytest.approx([0.0], abs=1e-5)
    assert intercept == pytest.approx(np.log(1 / 3), abs=1e-3)


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, -2.0]), min_size=4, max_size=4), min_size=1, max_size=8))
def test_sparse_products_equal_dense_ones(lines: list[list[float]]) -> None:
    """Rows · w and rowsᵀ · r, with empty rows anywhere, are the dense products."""
    matrix = np.array(lines)
    rows = stack_rows(dense_rows(matrix))
    w, r = np.arange(1.0, 5.0), np.arange(1.0, len(lines) + 1)
    assert rows.dot(w[rows.names]) == pytest.approx(matrix @ w)
    assert rows.transposed_dot(r) == pytest.approx((matrix.T @ r)[rows.names])


def test_columns_need_not_be_dense() -> None:
    """Columns keep the numbers they were given."""
    rows = stack_rows([Row(np.array([3, 900_000]), np.array([1, 2], dtype=np.float32))])
    assert rows.names.tolist() == [3, 900_000]


def test_minimize_reaches_the_valley_of_rosenbrock() -> None:
    """The optimiser alone finds the minimum of a function that is hard for steepest descent."""

    def rosenbrock(point: np.ndarray) -> tuple[float, np.ndarray]:
        x, y = point
        gradient = np.array([-2 * (1 - x) - 400 * x * (y - x * x), 200 * (y - x * x)])
        return float((1 - x) ** 2 + 100 * (y - x * x) ** 2), gradient

    assert minimize(rosenbrock, np.array([-1.2, 1.0]), max_steps=300, tolerance=1e-12) == pytest.approx(
        [1.0, 1.0], abs=1e-3
    )
