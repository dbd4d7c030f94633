"""Log-probabilities that llama.cpp keeps back: those of tokens that end within a character.

Its server holds such a token until the character is whole, and then names the token that made it so alone. What it held
is in `tokens` of its verbose answer, without a log-probability; that is asked for again, one token at a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from train.rollouts.rollout import MissingLogprobsError

ASCII_GRAMMAR: Final = "root ::= [ -~]*"
"""Lets llama.cpp write tokens of whole characters only. Log-probabilities that it says are of before grammars."""

_WHOLE_VOCABULARY: Final = 1 << 20


def places_kept_back(sampled: Sequence[int], said: Sequence[int]) -> list[int]:
    """Places of `sampled` tokens that `said`, the ones with log-probabilities, leaves out.

    Of equal tokens in a row the last is the one that was said: it made the character whole.

    Raises:
        MissingLogprobsError: tokens are said that were not sampled.
    """
    kept_back = []
    left = len(said)
    for place in range(len(sampled) - 1, -1, -1):
        if left and said[left - 1] == sampled[place]:
            left -= 1
        else:
            kept_back.append(place)
    if left:
        raise MissingLogprobsError("the engine has log-probabilities of tokens that are not in its answer")
    return kept_back[::-1]


def question_about_place(body: Mapping[str, Any], sampled: Sequence[int], place: int) -> dict[str, Any]:
    """A request for the distribution that `sampled[place]` was drawn from.

    Args:
        body: the request that was answered by `sampled`.
    """
    return {
        "model": body["model"],
        "prompt": [*body["prompt"], *sampled[:place]],
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": _WHOLE_VOCABULARY,
        "grammar": ASCII_GRAMMAR,
    }


def logprob_in(choice: Mapping[str, Any], token_id: int, temperature: float) -> float:
    """A token's log-probability at a temperature, nats, from the answer to `question_about_place`.

    Raises:
        MissingLogprobsError: the answer lacks it.
    """
    try:
        told = {
            each["id"]: float(each["logprob"]) for each in choice["logprobs"]["content"][0]["top_logprobs"]
        }
        asked = told[token_id]
    except (KeyError, IndexError, TypeError) as error:
        raise MissingLogprobsError(
            f"the engine keeps back the log-probability of token {token_id}, which ends within a character ({error!r})"
        ) from None
    if temperature in {0, 1}:
        return asked
    highest = max(told.values())
    total = sum(math.exp((each - highest) / temperature) for each in told.values())
    return (asked - highest) / temperature - math.log(total)
