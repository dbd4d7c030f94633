"""What a run of something taught is made of, put together from its recipe and this machine, and taken apart again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from distill.engine_teacher import EngineTeacher
from distill.opened_base import OpenedBase, open_base
from distill.pruning.pruned import with_layers
from distill.recipe import EngineSettings, TaughtRecipe
from distill.student_loss import Matched
from distill.teacher import PROBE, Teacher
from distill.trainer import StudentParts, held_out_items
from distill.whole_teacher import WholeTeacher
from serving.bringup.progress import Report
from serving.engines.base import Endpoint
from serving.registry.store import Store
from serving.settings_sources import environment
from train.assembly import NUM_VERIFIERS
from train.codec import ChatCodec
from train.domains.audit import audited
from train.domains.base import Domain
from train.policy import PRECISIONS
from train.recipe import RecipeError
from train.served import first_model
from train.verifiers.pool import Pool


@dataclass(frozen=True, slots=True)
class Workshop:
    """A base, and all that makes a student or exits of it."""

    base: OpenedBase
    teacher: Teacher
    domains: Mapping[str, Domain]
    without: frozenset[str]
    """Prompts that evaluations ask."""
    pool: Pool

    def parts(self, kept_layers: Sequence[int]) -> StudentParts:
        """With a student of these layers, as they are in the base."""
        base = self.base
        return StudentParts(
            student=with_layers(base.model, kept_layers),
            matched=Matched.of(kept_layers, base.model.shape.num_layers),
            teacher=self.teacher,
            codec=base.codec,
            domains=self.domains,
            pool=self.pool,
        )


@contextmanager
def assembled(recipe: TaughtRecipe, home: Path, report: Report) -> Iterator[Workshop]:
    """The parts of a run; verifiers run until it is left.

    Args:
        recipe: of the run.
        home: where the registry is.
        report: hears what is brought in.

    Raises:
        RecipeError: texts are longer than the base takes, or items have tools.
        UnauditedError: a domain has not passed its audit.
        TokenizerMismatchError: the teacher is of other tokens.
        EngineError, CheckpointError, RegistryError, BringupError, RunError: what is named is not there.
    """
    domains = {domain.name: domain for domain in audited([entry.name for entry in recipe.domains])}
    items = held_out_items(recipe, domains)
    if with_tools := [name for name, some in items.items() if any(item.environment for item in some)]:
        raise RecipeError(
            f"items of {', '.join(with_tools)} have tools, which students do not learn; leave them out"
        )
    if recipe.num_threads is not None:
        torch.set_num_threads(recipe.num_threads)
    base = open_base(recipe, Store(home / "registry"), report)
    if recipe.texts.max_text_tokens > base.model.shape.max_positions:
        raise RecipeError(
            f"the base takes {base.model.shape.max_positions} tokens; lower texts.max_text_tokens to that"
        )
    base.model.precision = PRECISIONS[recipe.precision]  # its student's, and the teacher's
    teacher = WholeTeacher(base.model) if recipe.teacher is None else _engine(recipe.teacher, base)
    without = frozenset(item.prompt for some in items.values() for item in some)
    with Pool(NUM_VERIFIERS) as pool:
        yield Workshop(base, teacher, domains, without, pool)


def _engine(settings: EngineSettings, base: OpenedBase) -> EngineTeacher:
    """The engine, which has to cut a text as the base does."""
    if not isinstance(base.codec, ChatCodec):
        raise RecipeError(
            "a policy of characters speaks of other tokens than any engine; leave `teacher` out"
        )
    endpoint = Endpoint(url=settings.url.rstrip("/"), api_key=environment().get("VLLM_API_KEY"))
    teacher = EngineTeacher(endpoint, settings.model or first_model(endpoint), settings.num_told)
    teacher.require_tokens(base.codec.tokenizer.encode(PROBE, add_special_tokens=False))
    return teacher
