"""A model and texts, as the options of `options.add_text_options` name them."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console

from distill.calibration import CalibrationText, answered, domain_prompts, general_prompts, referenced
from serving.bringup.progress import ConsoleReport
from serving.registry.store import Store
from train.base import locate
from train.codec import ChatCodec
from train.commands.options import home_of
from train.domains import catalog
from train.model.llama import Llama
from train.model.weights import load_llama
from train.rollouts.in_process import InProcessSampler
from train.run_directory import RunError


@dataclass(frozen=True, slots=True)
class Opened:
    """What a sub-verb works on."""

    model: Llama
    start: Path
    """Its checkpoint's directory; the tokenizer is there."""
    texts: list[CalibrationText]


def open_named(args: argparse.Namespace, console: Console) -> Opened:
    """Load the model and lay out its texts.

    Raises:
        RunError: something is in the way of the result, or there are no texts.
        CheckpointError, RegistryError, BringupError, UnknownDomainError: what is named is not there.
    """
    if args.out.exists() and (not args.out.is_dir() or any(args.out.iterdir())):
        raise RunError(f"{args.out} holds something already; name a directory that does not exist")
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    start = locate(args.model, Store(home_of(args) / "registry"), ConsoleReport(console))
    model = load_llama(start)
    codec = ChatCodec(start)
    domains = [catalog.get(name) for name in args.domains.split(",") if name]
    prompts = domain_prompts(domains, args.items, seed=args.seed)
    texts = list(referenced(prompts, {domain.name: domain for domain in domains}, codec))
    if args.general:
        with console.status(f"{args.general} answers of the model's own"):
            texts += answered(
                general_prompts(args.general, seed=args.seed),
                InProcessSampler(model),
                codec,
                temperature=0.0,
                max_tokens=lambda _: args.max_answer_tokens,
            )
    if not texts:
        raise RunError("there is nothing to read; name domains whose items need no tools, or --general")
    return Opened(model, start, texts)
