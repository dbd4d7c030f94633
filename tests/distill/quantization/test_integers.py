"""Integers of a few bits: packed as compressed-tensors has it, within their step, better where scales are searched."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from distill.quantization.integers import SHARES, GroupSizeError, Integers, pack, round_to_integers, unpack

torch.set_num_threads(1)


def weights(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_packing_by_hand() -> None:
    """Two bytes: 1 and 2 are 129 and 130, 33,153 together; eight nibbles from −8 on are 0x76543210, and 7 is f."""
    assert pack(torch.tensor([[1, 2]], dtype=torch.int8), 8).tolist() == [[129 + (130 << 8)]]
    levels = torch.tensor([[-8, -7, -6, -5, -4, -3, -2, -1, 7, 0, 0, 0, 0, 0, 0, 7]], dtype=torch.int8)
    assert [word & 0xFFFFFFFF for word in pack(levels, 4)[0].tolist()] == [0x76543210, 0xF888888F]


@given(st.sampled_from([2, 4, 8]), st.integers(1, 5), st.integers(1, 70), st.integers(0, 99))
def test_unpacking_is_the_way_back(num_bits: int, rows: int, row: int, seed: int) -> None:
    """Whatever was packed comes back, rows that do not fill their last word too."""
    half = 2 ** (num_bits - 1)
    drawn = torch.randint(-half, half, (rows, row), generator=torch.Generator().manual_seed(seed))
    levels = drawn.to(torch.int8)
    words = pack(levels, num_bits)
    assert words.shape == (rows, -(-row * num_bits // 32))
    assert torch.equal(unpack(words, num_bits, row), levels)


def test_rounding_by_hand() -> None:
    """Largest level 7 for 7: scale 1, halves to even; without a search the level −8 is not used."""
    weight = torch.tensor([[7.0, -7.0, 0.5, 1.5, -2.4, 0.0, 3.0, -3.6]])
    found = round_to_integers(weight, 4)
    assert found.scales.tolist() == [[1.0]]
    assert found.levels.tolist() == [[7, -7, 0, 2, -2, 0, 3, -4]]
    assert found.floats().tolist() == [[7.0, -7.0, 0.0, 2.0, -2.0, 0.0, 3.0, -4.0]]


@pytest.mark.parametrize(("num_bits", "group_size"), [(8, None), (8, 32), (4, 32), (4, 64)])
def test_error_stays_within_half_a_step(num_bits: int, group_size: int | None) -> None:
    """A weight is off by no more than half a step of its scale, and what rounding the scale to bfloat16 cuts."""
    weight = weights(48, 192)
    found = round_to_integers(weight, num_bits, group_size=group_size)
    assert found.scales.shape == (48, 192 // (group_size or 192))
    apart = (found.floats() - weight).abs().unflatten(1, (found.scales.shape[1], -1))
    highest = 2 ** (num_bits - 1) - 1
    # a scale is rounded by one part in 256 of itself, so that the largest weights may be cut by as much of themselves
    bound = found.scales.float()[..., None] * (0.5 + highest / 256)
    assert (apart <= bound).all()
    assert (apart > bound / 3).any()


def test_searching_scales_loses_less() -> None:
    """In no group more, and by a good part on the whole; a lone large weight is cut for the sake of the others."""
    weight = weights(32, 128)
    weight[:, 5] *= 3
    plain = round_to_integers(weight, 4, group_size=64)
    searched = round_to_integers(weight, 4, group_size=64, shares=SHARES)
    errors = [(each.floats() - weight).square().unflatten(1, (2, 64)).sum(-1) for each in (searched, plain)]
    assert (errors[0] <= errors[1]).all()
    assert errors[0].sum() < 0.95 * errors[1].sum()
    assert searched.levels.min() == -8


def test_nothing_but_noughts() -> None:
    """A group of zeros has a scale that can be divided by."""
    found = round_to_integers(torch.zeros(2, 64), 4, group_size=32)
    assert (found.scales > 0).all()
    assert torch.equal(found.floats(), torch.zeros(2, 64))


def test_groups_that_do_not_divide_are_refused() -> None:
    """SmolLM2's rows of 576 in groups of 128."""
    with pytest.raises(GroupSizeError, match="576 weights do not divide into groups of 128"):
        round_to_integers(weights(2, 576), 4, group_size=128)


def test_what_integers_stand_for() -> None:
    """A scale for each group, by hand."""
    levels = torch.tensor([[1, 2, 3, 4]], dtype=torch.int8)
    found = Integers(levels, torch.tensor([[2.0, 0.5]], dtype=torch.bfloat16))
    assert found.floats().tolist() == [[2.0, 4.0, 1.5, 2.0]]
