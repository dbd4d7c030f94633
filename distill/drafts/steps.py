"""How long a step takes in this process, by the tokens in it: of a model, of a head, of a look-up.

A step of width k gives one token more to each of k sequences. Verifying γ + 1 tokens of S sequences is taken to cost a
step of width S (γ + 1): `cost_model` says why. The sampler's own code is timed (`train.model.decoder`), so times hold
for the engine inside; other engines are timed by `engine_steps`.

Steps are timed in turn, each once a repetition, so that whatever else the machine does disturbs all of them alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from statistics import median
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from distill.drafts.head import DraftHead
from distill.drafts.ngram import look_up
from train.model.decoder import Cache, CacheAttention, Decoder
from train.model.linear import FloatLinear, LinearMap
from train.model.llama import Llama

CONTEXT_TOKENS = 256
"""That each sequence has behind it, where nothing else is said."""
NUM_REPETITIONS = 9
"""The median counts, after one that does not."""

Step = Callable[[], object]
Clock = Callable[[], float]
Name = TypeVar("Name", bound=Hashable)


def model_steps(
    model: Llama,
    widths: Sequence[int],
    *,
    context_tokens: int = CONTEXT_TOKENS,
    make_linear: Callable[[Tensor], LinearMap] = FloatLinear,
) -> dict[int, Step]:
    """Width → a step of a model: logits of every token and the choice of the likeliest included."""
    decoder = Decoder(model, make_linear)
    cache = Cache(decoder, max(widths), context_tokens + 1)

    def step_of(width: int) -> Step:
        positions = torch.full((width,), context_tokens)
        token_ids = torch.arange(width) % model.shape.vocab_size

        def step() -> Tensor:
            attend = CacheAttention(cache, positions, context_tokens)
            return decoder.logits(decoder.hidden(token_ids, positions, attend)).argmax(-1)

        return step

    return {width: step_of(width) for width in widths}


def head_steps(
    head: DraftHead, target: Llama, widths: Sequence[int], *, context_tokens: int = CONTEXT_TOKENS
) -> dict[int, Step]:
    """Width → one guess of a head: embedding, layer, output, choice. Fusing states costs once a round, not here."""
    shape = head.shape

    def step_of(width: int) -> Step:
        kept = torch.zeros(width, shape.num_kv_heads, context_tokens, shape.head_size)
        token_ids, positions = (
            torch.arange(width) % target.shape.vocab_size,
            torch.full((width,), context_tokens),
        )
        states = torch.zeros(width, shape.hidden_size)

        def attend(layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            seen = (torch.cat((kept, each[:, :, None]), dim=2) for each in (keys, values))
            gathered = functional.scaled_dot_product_attention(queries[:, :, None], *seen, enable_gqa=True)
            return gathered[:, :, 0]

        def step() -> Tensor:
            embedded = target.model.embed_tokens(token_ids)
            return head.logits(head(embedded, states, positions, attend)).argmax(-1)

        return step

    return {width: step_of(width) for width in widths}


def lookup_s(
    widths: Sequence[int],
    num_drafts: int,
    *,
    context_tokens: int = CONTEXT_TOKENS,
    clock: Clock = time.perf_counter,
) -> dict[int, float]:
    """Width → seconds a drafted token of looking up in so many contexts, none of which says anything twice: the worst.

    One look-up gives all drafts of a round; its time is parted among `num_drafts`, the fewest that will be asked for.
    """
    context = tuple(range(context_tokens))

    def step_of(width: int) -> Step:
        return lambda: [look_up(context, num_drafts) for _ in range(width)]

    taken = timed_in_turn({width: step_of(width) for width in widths}, clock)
    return {width: seconds / num_drafts for width, seconds in taken.items()}


@torch.no_grad()
def timed_in_turn(
    steps: Mapping[Name, Step], clock: Clock = time.perf_counter, *, num_repetitions: int = NUM_REPETITIONS
) -> dict[Name, float]:
    """Name → seconds of its step, the median over repetitions."""
    taken: dict[Name, list[float]] = {name: [] for name in steps}
    for repetition in range(num_repetitions + 1):
        for name, step in steps.items():
            begun = clock()
            step()
            if repetition:
                taken[name].append(clock() - begun)
    return {name: median(each) for name, each in taken.items()}
