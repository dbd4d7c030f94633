"""Everything that a run is made of, put together from its recipe and this machine, and taken apart again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import torch
from rich.console import Console

from serving.bringup.progress import ConsoleReport
from serving.engines.base import Endpoint
from serving.registry.store import Store
from serving.settings_sources import environment
from train.base import locate
from train.domains.audit import audited
from train.parts import Parts, UpdatedSampler
from train.policy import Policy, build_policy
from train.recipe import Recipe
from train.rollouts.vllm import pushing
from train.verifiers.pool import Pool

NUM_VERIFIERS: Final = 2


@contextmanager
def assemble(recipe: Recipe, home: Path, console: Console) -> Iterator[Parts]:
    """The parts of a run; verifiers run until it is left.

    Args:
        recipe: of the run.
        home: where the registry is.
        console: where progress is shown.

    Raises:
        UnauditedError: a domain has not passed its audit.
        CheckpointError, RegistryError, BringupError: the base is not there, or not what it was.
    """
    domains = audited([domain.name for domain in recipe.domains])
    if recipe.num_threads is not None:
        torch.set_num_threads(recipe.num_threads)
    store = Store(home / "registry")
    policy = build_policy(recipe, lambda source: locate(source, store, ConsoleReport(console)))
    with Pool(NUM_VERIFIERS) as pool, _sampler(recipe, policy, home) as sampler:
        yield Parts(
            policy.model,
            sampler,
            policy.codec,
            {domain.name: domain for domain in domains},
            pool,
            make_evaluator=policy.make_evaluator,
        )


@contextmanager
def _sampler(recipe: Recipe, policy: Policy, home: Path) -> Iterator[UpdatedSampler]:
    """The policy's own, or one that pushes to the recipe's server, with the key that vLLM itself reads."""
    url = recipe.rl.rollouts_url
    if url is None:
        yield policy.sampler
        return
    endpoint = Endpoint(url=url, api_key=environment().get("VLLM_API_KEY"))
    with pushing(policy.model.model, endpoint, home / "adapters", base=str(policy.base)) as sampler:
        yield sampler
