"""Groups of continuations that share a prompt, laid end to end: the prompt is computed once, each continuation sees it.

    line:       prompt 0 | continuation 0.0 | continuation 0.1 | … | prompt 1 | continuation 1.0 | …
    positions:  0 … P−1  | P …              | P …              | … | 0 …

Masks come from lengths, never from token ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class GroupLayout:
    """Where the tokens of one group lie in the line."""

    start: int
    prompt_length: int
    lengths: tuple[int, ...]
    """Of the continuations; 0 is allowed."""

    @property
    def stop(self) -> int:
        """One behind the group's last token."""
        return self.start + self.prompt_length + sum(self.lengths)

    def continuations(self) -> Iterator[range]:
        """Where each continuation lies."""
        start = self.start + self.prompt_length
        for length in self.lengths:
            yield range(start, start + length)
            start += length


def lay_out(prompt_lengths: Sequence[int], lengths: Sequence[Sequence[int]]) -> tuple[GroupLayout, ...]:
    """The layouts of groups laid end to end."""
    layouts: list[GroupLayout] = []
    for prompt_length, continuations in zip(prompt_lengths, lengths, strict=True):
        start = layouts[-1].stop if layouts else 0
        layouts.append(GroupLayout(start, prompt_length, tuple(continuations)))
    return tuple(layouts)


def positions_of(layouts: Sequence[GroupLayout]) -> Tensor:
    """(N,): each token's place in its own sequence."""
    positions: list[int] = []
    for layout in layouts:
        positions += range(layout.prompt_length)
        for length in layout.lengths:
            positions += range(layout.prompt_length, layout.prompt_length + length)
    return torch.tensor(positions)


def predictors_of(layouts: Sequence[GroupLayout], lengths: Sequence[Sequence[int]]) -> Tensor:
    """Indices of the tokens whose hidden states predict the first `lengths` tokens behind each group's prompt.

    A continuation's first token is predicted by the prompt's last, each further one by the token before it.
    """
    indices: list[int] = []
    for layout, wanted in zip(layouts, lengths, strict=True):
        for place, length in zip(layout.continuations(), wanted, strict=True):
            if length:
                indices += [layout.start + layout.prompt_length - 1, *place[: length - 1]]
    return torch.tensor(indices, dtype=torch.long)


class GroupAttention:
    """Attention in a line of groups.

    Args:
        layouts: of the groups, which cover the line.
        device: where the states are.
    """

    def __init__(self, layouts: Sequence[GroupLayout], device: torch.device | str = "cpu") -> None:
        self._places = [_Places.of(layout, device) for layout in layouts]

    def __call__(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """As `llama.Attention`."""
        return torch.cat([part for places in self._places for part in places.gather(queries, keys, values)])


@dataclass(frozen=True, slots=True)
class _Places:
    layout: GroupLayout
    index: Tensor
    """(G, C): where each continuation's tokens lie in the line; short ones are filled up with any token."""
    is_token: Tensor
    """(G, C): False for what fills up."""
    sees: Tensor
    """(G, 1, C, P + C): which of the prompt and of its own tokens each one sees."""

    @classmethod
    def of(cls, layout: GroupLayout, device: torch.device | str) -> _Places:
        longest = max(layout.lengths, default=0)
        starts = torch.tensor([place.start for place in layout.continuations()], dtype=torch.long)
        lengths = torch.tensor(layout.lengths, dtype=torch.long)
        steps = torch.arange(longest)
        is_token = steps < lengths[:, None]
        index = torch.where(is_token, starts[:, None] + steps, layout.start)
        own = (steps <= steps[:, None]) & is_token[:, None]
        prompt = torch.ones(len(lengths), longest, layout.prompt_length, dtype=torch.bool)
        sees = torch.cat((prompt, own), dim=-1)[:, None]
        return cls(layout, index.to(device), is_token.to(device), sees.to(device))

    def gather(self, queries: Tensor, keys: Tensor, values: Tensor) -> Iterator[Tensor]:
        prompt = slice(self.layout.start, self.layout.start + self.layout.prompt_length)
        repeats = queries.shape[1] // keys.shape[1]
        keys_seen, values_seen = (
            states.repeat_interleave(repeats, dim=1).transpose(0, 1)[None]
            for states in (keys[prompt], values[prompt])
        )
        yield _attend(_heads_first(queries[prompt][None]), keys_seen, values_seen, is_causal=True)[0]
        if not self.index.numel():
            return
        num = len(self.index)
        keys_seen, values_seen = (
            torch.cat((seen.expand(num, -1, -1, -1), _heads_first(states[self.index], repeats)), dim=2)
            for seen, states in ((keys_seen, keys), (values_seen, values))
        )
        gathered = _attend(_heads_first(queries[self.index]), keys_seen, values_seen, sees=self.sees)
        yield gathered[self.is_token]


def _heads_first(states: Tensor, repeats: int = 1) -> Tensor:
    """(B, T, heads, D) → (B, heads · repeats, T, D)."""
    return states.repeat_interleave(repeats, dim=2).transpose(1, 2)


def _attend(
    queries: Tensor, keys: Tensor, values: Tensor, *, sees: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    gathered = functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=sees, is_causal=is_causal
    )
    return gathered.transpose(1, 2)
