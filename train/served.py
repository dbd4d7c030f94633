"""Scores what a server answers: an engine of ours, or any that speaks the OpenAI completions API with token ids.

The prompts are those of training, made by a policy's own tokenizer and chat template, and what it would have scored in
this process it scores there; no weights are loaded here. That is how items of 32,000 tokens are asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from serving.engines.base import Endpoint, EngineError
from train.codec import ChatCodec
from train.domains.audit import audited
from train.evaluate import Evaluation, evaluate, held_out
from train.rollouts.engine import EngineSampler
from train.verifiers.pool import Pool

MAX_ANSWER_S: Final = 1800.0
"""For one answer, its turn in the server's queue included; later it counts as none."""
NUM_VERIFIERS: Final = 2
MODELS_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked, and how often."""

    levels: Mapping[str, Sequence[int]]
    """Of each domain."""
    num_items: int = 32
    num_samples: int = 0


def evaluate_served(endpoint: Endpoint, model_id: str | None, directory: Path, asked: Asked) -> Evaluation:
    """Held-out items, answered by a server.

    Args:
        endpoint: of the server.
        model_id: what stands in a request's `model`; the first that the server lists where None.
        directory: in Hugging Face's form, with the tokenizer and chat template of the model that is served.
        asked: what.

    Raises:
        EngineError: the server cannot be reached, or refuses.
        MissingLogprobsError: it keeps token ids or log-probabilities back.
        UnauditedError: a domain has not passed its audit.
    """
    domains = {domain.name: domain for domain in audited(asked.levels)}
    items = {name: held_out(domains[name], levels, asked.num_items) for name, levels in asked.levels.items()}
    sampler = EngineSampler(endpoint, model_id or first_model(endpoint), max_seconds=MAX_ANSWER_S)
    with Pool(NUM_VERIFIERS) as pool:
        return evaluate(
            items,
            domains=domains,
            sampler=sampler,
            codec=ChatCodec(directory),
            pool=pool,
            max_tokens=lambda item: item.max_answer_tokens,
            num_samples=asked.num_samples,
        )


def first_model(endpoint: Endpoint) -> str:
    """The id of the first model that the server lists.

    Raises:
        EngineError: it cannot be reached, or lists none.
    """
    url = f"{endpoint.url}/v1/models"
    headers = {"authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
    try:
        answer = httpx.get(url, headers=headers, timeout=MODELS_TIMEOUT_S).raise_for_status()
        listed: list[dict[str, Any]] = answer.json()["data"]
        return str(listed[0]["id"])
    except httpx.HTTPError as error:
        raise EngineError(f"{url} does not answer ({error}); is the server up, and the key right?") from error
    except (ValueError, LookupError, TypeError) as error:
        raise EngineError(f"{url} lists no model ({error!r}); name one with --model") from error
