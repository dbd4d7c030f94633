"""A row's result does not depend on the batch; eight bits are close."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from train.model.linear import FloatLinear, Int8Linear, LinearMap


def rough(weight: Tensor) -> LinearMap:
    """Weights and rows in bfloat16."""
    linear = FloatLinear(weight.bfloat16())
    return lambda x: linear(x.bfloat16())


@pytest.mark.parametrize("make_linear", [FloatLinear, Int8Linear, rough])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_row_is_the_same_to_the_bit_in_every_batch(
    make_linear: Callable[[Tensor], LinearMap], num_threads: int
) -> None:
    """Whatever the number of rows, and wherever a row stands among them."""
    torch.set_num_threads(num_threads)
    draw = torch.Generator().manual_seed(0)
    for size_in, size_out in ((576, 960), (1536, 576), (24, 61)):
        linear = make_linear(torch.randn(size_out, size_in, generator=draw))
        x = torch.randn(64, size_in, generator=draw)
        whole, order = linear(x), torch.randperm(64, generator=draw)
        assert torch.equal(linear(x[order]), whole[order])
        for num in (1, 2, 3, 7, 15, 16, 17, 33):
            assert torch.equal(linear(x[:num]), whole[:num])
    torch.set_num_threads(1)


def test_eight_bits_by_hand() -> None:
    """Weights are rounded to 127 steps of their row's largest, activations to 254 times as many; products are exact."""
    linear = Int8Linear(torch.tensor([[1.27, 0.504], [0.0, -2.54]]))
    second = 10 + round(0.4 * 254) / 254  # steps of 0.1 in 1.04
    assert linear(torch.tensor([[12.7, 1.04]])).tolist() == [
        pytest.approx([12.7 * 1.27 + 0.1 * second * 0.50, -0.1 * second * 2.54], rel=1e-6)
    ]
    assert linear(torch.zeros(1, 2)).tolist() == [[0.0, 0.0]]


def test_small_activations_survive_beside_a_large_one() -> None:
    """One activation a thousand times the others, as language models have them, costs the others a percent at most."""
    draw = torch.Generator().manual_seed(0)
    weight, x = torch.randint(-127, 128, (8, 64), generator=draw).float(), torch.randn(1, 64, generator=draw)
    weight[:, 0], weight[:, 1] = 0, 127
    x[0, 0] = 1000.0
    torch.testing.assert_close(
        Int8Linear(weight)(x), x @ weight.T, rtol=0, atol=0.01 * float((x @ weight.T).std())
    )
