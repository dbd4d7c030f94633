"""Held-out items, answered greedily by llama.cpp on what it serves; a measurement a model and domain.

The items are those of every evaluation (`train.evaluate.held_out`). The engine comes up only where an answer is
missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from typing import Any, Final

from distill.line_up.cells import Cells
from distill.line_up.entrants import Ready
from distill.questions import Questions
from serving.engines.base import Endpoint
from serving.engines.brought_up import brought_up
from serving.engines.llamacpp import LlamaCppEngine, LlamaCppSettings
from serving.registry.manifest import digest
from serving.settings_sources import environment
from train.codec import ChatCodec
from train.domains.audit import audited
from train.domains.base import Domain, Item
from train.evaluate import MAX_ROLLOUT_TOKENS, Answer, evaluate, held_out
from train.rollouts.engine import EngineSampler
from train.rollouts.rollout import Sampler
from train.served import MAX_ANSWER_S
from train.transcript import Message
from train.verifiers.pool import Judge

NUM_SLOTS: Final = 16
"""Answers that are written at once."""
SITTING_ITEMS: Final = 4 * NUM_SLOTS
"""That are asked at once, at least."""
_CONTEXT_STEP: Final = 256


@dataclass(frozen=True, slots=True)
class Answered:
    """One model's answers to a domain's items, in the items' order."""

    scores: tuple[float, ...]
    """Verified, in [0, 1]."""
    num_tokens: tuple[int, ...]
    """Of each answer, its end included; with tools, of the last turn."""
    num_errors: int
    """Items without a verdict: scored 0."""


@dataclass(frozen=True, slots=True)
class Paper:
    """A domain's items, and how long an answer may be."""

    domain: Domain
    items: tuple[Item, ...]
    max_answer_tokens: int | None
    """The item's own where None."""

    def limit(self, item: Item) -> int:
        """Tokens of an answer to the item."""
        return self.max_answer_tokens or item.max_answer_tokens

    @property
    def key(self) -> dict[str, Any]:
        """By which measurements know it."""
        asked = [[item.id, item.prompt, self.limit(item)] for item in self.items]
        return {"domain": self.domain.name, "items": digest(asked)}


def papers_of(questions: Questions) -> tuple[Paper, ...]:
    """What everyone is asked, a paper a domain.

    Raises:
        UnauditedError, UnknownDomainError: a domain has not passed its audit, or there is none of that name.
    """
    settings = {each.name: each for each in questions.domains}
    return tuple(
        Paper(
            domain,
            tuple(held_out(domain, settings[domain.name].levels, questions.num_items)),
            settings[domain.name].max_answer_tokens,
        )
        for domain in audited(settings)
    )


def answers(
    who: Ready,
    papers: Sequence[Paper],
    cells: Cells,
    pool: Judge,
    log: Path,
    *,
    threads: int | None = None,
    on_paper: Callable[[], None] = lambda: None,
) -> dict[str, Answered]:
    """Domain → what one model answered.

    Args:
        who: the model.
        papers: what it is asked.
        cells: has what was answered already, and gets the rest.
        pool: judges.
        log: where the engine's output goes.
        threads: of the engine; as `llamacpp_plan` chooses where None.
        on_paper: called when a domain is done, also where it was already.

    Raises:
        EngineError: the engine does not start, or does not answer.
        RunError: a measurement is damaged.
    """
    found: dict[str, Answered] = {}
    missing = []
    for paper in papers:
        told = cells.find(cell_key(who, paper))
        if told is None:
            missing.append(paper)
        else:
            found[paper.domain.name] = _read(told)
            on_paper()

    def ask(endpoint: Endpoint, model_id: str) -> None:
        codec = ChatCodec(who.start)
        sampler = EngineSampler(endpoint, model_id, max_seconds=MAX_ANSWER_S, max_in_flight=NUM_SLOTS)
        for sitting in sittings(missing):
            for paper, answered in zip(sitting, _answered(sitting, sampler, codec, pool), strict=True):
                cells.keep(cell_key(who, paper), asdict(answered))
                found[paper.domain.name] = answered
                on_paper()

    if missing:
        asyncio.run(_with_engine(who, _context_tokens(missing, who.start), threads, log, ask))
    return {paper.domain.name: found[paper.domain.name] for paper in papers}


def sittings(papers: Sequence[Paper]) -> list[tuple[Paper, ...]]:
    """Papers that are asked at once: behind the longest answer of a few items, slots would stand empty.

    What is stopped within one is asked again.
    """
    found: list[list[Paper]] = []
    num_items = SITTING_ITEMS
    for paper in papers:
        if num_items >= SITTING_ITEMS:
            found.append([])
            num_items = 0
        found[-1].append(paper)
        num_items += len(paper.items)
    return [tuple(sitting) for sitting in found]


def cell_key(who: Ready, paper: Paper) -> dict[str, Any]:
    """Of one model's answers to one domain."""
    return {"kind": "answers", "engine": "llama.cpp", **who.key, **paper.key}


async def _with_engine(
    who: Ready, context_tokens: int, threads: int | None, log: Path, ask: Callable[[Endpoint, str], None]
) -> None:
    settings = LlamaCppSettings(
        threads=threads, slots=NUM_SLOTS, context_tokens=context_tokens, prompt_cache_mib=0
    )
    engine = LlamaCppEngine(settings)
    async with brought_up(engine, who.file, log, environment(), name=who.label) as (endpoint, capabilities):
        await asyncio.to_thread(ask, endpoint, capabilities.model_id)


def _answered(sitting: Sequence[Paper], sampler: Sampler, codec: ChatCodec, pool: Judge) -> list[Answered]:
    """Of each paper."""
    by_domain = {paper.domain.name: paper for paper in sitting}
    said: list[Sequence[Answer]] = []
    evaluate(
        {name: paper.items for name, paper in by_domain.items()},
        domains={name: paper.domain for name, paper in by_domain.items()},
        sampler=sampler,
        codec=codec,
        pool=pool,
        max_tokens=lambda item: by_domain[item.domain].limit(item),
        on_answers=said.append,
    )
    return [
        Answered(
            scores=tuple(each.verdict.score for each in answers),
            num_tokens=tuple(len(each.span.token_ids) for each in answers),
            num_errors=sum(each.verdict.error is not None for each in answers),
        )
        for answers in said
    ]


def _context_tokens(papers: Iterable[Paper], start: Path) -> int:
    """That every item fits into, with its answer."""
    codec = ChatCodec(start)
    longest = max(
        MAX_ROLLOUT_TOKENS
        if item.environment is not None
        else len(codec.prompt([Message("user", item.prompt)])) + paper.limit(item)
        for paper in papers
        for item in paper.items
    )
    return _CONTEXT_STEP * ceil((longest + 1) / _CONTEXT_STEP)


def _read(told: dict[str, Any]) -> Answered:
    return Answered(tuple(told["scores"]), tuple(told["num_tokens"]), int(told["num_errors"]))
