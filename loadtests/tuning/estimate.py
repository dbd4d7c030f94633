"""How long a search would take, before anything is started: a guess from the size of the weights. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loadtests.tuning.evidence import MAX_LOSSES
from loadtests.tuning.figures import NUM_STREAMS
from loadtests.tuning.load import ALONE_TOKENS, LONG_CHARS, SHORT_CHARS, STREAM_TOKENS
from loadtests.tuning.search import CONFIRM_ROUNDS
from loadtests.tuning.space import Knob

BYTES_PER_S: Final = 10e9
"""At which a CPU reads weights, once for each token of a lone stream."""
MAX_TOKENS_PER_S: Final = 150.0
PROMPT_SPEED_UP: Final = 8.0
STREAMS_SPEED_UP: Final = 2.5
"""Of many tokens at once over one; roughly what 135M parameters do on two cores."""
CHARS_PER_TOKEN: Final = 4
ROUNDS_IF_NOTHING_PAYS: Final = 2 * (MAX_LOSSES + 1)
"""Of a race between equals, the mean: each is ahead in half of the rounds."""


def measurement_s(weights_bytes: int) -> float:
    """Of one server, once."""
    alone_per_s = min(MAX_TOKENS_PER_S, BYTES_PER_S / max(1, weights_bytes))
    prompt_tokens = (LONG_CHARS + NUM_STREAMS * SHORT_CHARS) / CHARS_PER_TOKEN
    return (
        prompt_tokens / (PROMPT_SPEED_UP * alone_per_s)
        + ALONE_TOKENS / alone_per_s
        + NUM_STREAMS * STREAM_TOKENS / (STREAMS_SPEED_UP * alone_per_s)
    )


def climb_s(space: Sequence[Knob], weights_bytes: int, *, start_s: float) -> float:
    """Trying every candidate once, where none pays."""
    num_candidates = sum(len(knob.candidates) for knob in space)
    return num_candidates * (start_s + ROUNDS_IF_NOTHING_PAYS * 2 * measurement_s(weights_bytes))


def confirm_s(weights_bytes: int, *, start_s: float) -> float:
    """Confirming what was found."""
    return CONFIRM_ROUNDS * 2 * (start_s + measurement_s(weights_bytes))
