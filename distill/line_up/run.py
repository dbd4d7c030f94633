"""The story of a line-up: models are made ready, asked, raced in each engine, and read by the router."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from distill.examine import CONTEXT_TOKENS, NUM_VERIFIERS, Trying
from distill.gate import EngineName
from distill.line_up.cells import Cells
from distill.line_up.entrants import Entrant, Ready, made_ready
from distill.line_up.exam import Paper, answers, cell_key, papers_of
from distill.line_up.race import Round, race, round_key
from distill.line_up.router_order import forecasts, gains_of
from distill.line_up.standings import Gains, Measured
from distill.questions import MIN_ITEMS, Questions
from distill.vllm_trial import VllmTrial
from serving.bringup.progress import Report
from serving.engines.base import Engine
from serving.engines.llamacpp import LlamaCppEngine, LlamaCppSettings
from serving.registry.store import Store
from train.run_directory import RunError
from train.verifiers.pool import Pool

LOGS_NAME: Final = "logs"
"""Of engines, in the directory of the measurements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is lined up."""

    entrants: Sequence[Entrant]
    """The first is the reference."""
    questions: Questions
    trying: Trying
    """Its engines are raced in; vLLM only where its Python is named."""
    router: str | None = None
    """As `router_order.forecasts`; None asks none."""

    def __post_init__(self) -> None:
        labels = [each.label for each in self.entrants]
        if len(set(labels)) < len(labels) or len(labels) < 2:
            raise RunError("a line-up has two models or more, each by a label of its own: full=… fast=…")
        if self.questions.num_items < MIN_ITEMS or not self.questions.domains:
            raise RunError(f"ask at least {MIN_ITEMS} items of each domain: one item has no interval")

    @property
    def quantizations(self) -> dict[str, str]:
        """By label, of what is no GGUF yet."""
        first, *others = self.entrants
        quantized = {each.label: self.trying.quantization for each in others}
        return {first.label: self.trying.full_quantization, **quantized}

    @property
    def engines(self) -> tuple[EngineName, ...]:
        """That are raced in."""
        has_vllm = self.trying.vllm_python is not None
        return tuple(name for name in self.trying.engines if name == "llama.cpp" or has_vllm)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What a line-up would take, of what is not measured yet."""

    num_answers: int
    max_answer_tokens: int
    """Of all of them together, were each as long as it may be."""
    num_rounds: Mapping[str, int]
    """By engine."""
    timed_tokens: Mapping[str, int]
    """Of those rounds, all models together, and of warming up."""
    num_measurements: int
    """That are there already."""


def measure(wish: Wish, store: Store, home: Path, report: Report, cells: Cells) -> Measured:
    """Do it; what `cells` has is not measured again.

    Args:
        wish: what.
        store: the registry.
        home: where it lives.
        report: hears what happens.
        cells: get every measurement as it is made.

    Raises:
        RunError, CheckpointError, RegistryError, BringupError, UnauditedError: something named is not there.
        EngineError, MissingLogprobsError: an engine does not come up on a model, or does not answer as it has to.
    """
    papers = papers_of(wish.questions)
    logs = cells.directory / LOGS_NAME
    logs.mkdir(parents=True, exist_ok=True)
    with made_ready(wish.entrants, store, report, quantizations=wish.quantizations) as ready:
        given = {}
        with (
            Pool(NUM_VERIFIERS) as pool,
            report.track("answers, by domain", len(ready) * len(papers), "texts") as done,
        ):
            count = _counter(done)
            for who in ready:
                report.say(f"{who.label}: asked {len(papers)} domains")
                log = logs / f"{who.label}-asked.log"
                given[who.label] = answers(
                    who, papers, cells, pool, log, threads=wish.trying.threads, on_paper=count
                )
        rounds: dict[str, Sequence[Round]] = {
            name: _raced(name, wish, ready, cells, report) for name in wish.engines
        }
    return Measured(entrants=ready, answers=given, rounds=rounds, gains=_gains(wish, papers, home))


def outlook(wish: Wish, store: Store, report: Report, cells: Cells) -> Outlook:
    """What `measure` would do; models are opened, nothing is asked."""
    papers = papers_of(wish.questions)
    load, threads = wish.trying.load, wish.trying.threads
    with made_ready(wish.entrants, store, report, quantizations=wish.quantizations) as ready:
        pairs = [(who, paper) for who in ready for paper in papers]
        missing = [paper for who, paper in pairs if cells.find(cell_key(who, paper)) is None]
        rounds: dict[str, int] = {
            name: sum(
                cells.find(round_key(name, ready, load, threads=threads, number=number)) is None
                for number in range(load.num_rounds)
            )
            for name in wish.engines
        }
    of_round = len(ready) * sum(load.nums_streams) * load.num_tokens
    num_known = len(pairs) - len(missing) + load.num_rounds * len(rounds) - sum(rounds.values())
    return Outlook(
        num_answers=sum(len(paper.items) for paper in missing),
        max_answer_tokens=sum(paper.limit(item) for paper in missing for item in paper.items),
        num_rounds=rounds,
        timed_tokens={name: (num + 1) * of_round if num else 0 for name, num in rounds.items()},
        num_measurements=num_known,
    )


def _raced(
    name: EngineName, wish: Wish, ready: Sequence[Ready], cells: Cells, report: Report
) -> tuple[Round, ...]:
    trying = wish.trying
    report.say(f"{name}: {len(ready)} models write in turn, {trying.load.num_rounds} rounds")
    tracked: AbstractContextManager[Callable[[int], None]] = report.track(
        f"rounds in {name}", trying.load.num_rounds, "texts"
    )
    with tracked as done:
        return race(
            name,
            _engine(name, trying, num_sharing=len(ready)),
            ready,
            trying.load,
            cells,
            cells.directory / LOGS_NAME / name,
            threads=trying.threads,
            on_round=_counter(done),
        )


def _engine(name: EngineName, trying: Trying, *, num_sharing: int) -> Engine:
    num_streams = max(trying.load.nums_streams)
    if name == "llama.cpp":
        settings = LlamaCppSettings(
            threads=trying.threads, slots=num_streams, context_tokens=CONTEXT_TOKENS, prompt_cache_mib=0
        )
        return LlamaCppEngine(settings, num_sharing=num_sharing)
    assert trying.vllm_python is not None, "vLLM is raced in only where its Python is named"
    return VllmTrial(
        trying.vllm_python, num_streams=num_streams, context_tokens=CONTEXT_TOKENS, threads=trying.threads
    )


def _gains(wish: Wish, papers: Sequence[Paper], home: Path) -> Gains | None:
    return None if wish.router is None else gains_of(forecasts(wish.router, papers, home), papers)


def _counter(done: Callable[[int], None]) -> Callable[[], None]:
    """Tells a bar one more each time."""
    number = 0

    def count() -> None:
        nonlocal number
        number += 1
        done(number)

    return count
