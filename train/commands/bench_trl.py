"""`tierwise train bench-trl`: our steps of reinforcement against TRL's."""

from __future__ import annotations

import argparse
import sys

from train.commands.failures import reported
from train.commands.options import add_race_options, new_parser

ABOUT = """\
Take the same steps of reinforcement with our trainer and with TRL's GRPOTrainer, in turn, and compare rollouts a second
and trained tokens a second. Both on the CPU, in single precision; `train/trainer_benchmark.py` says what is the same.
Needs the extra `train-oracle`.
"""
EXAMPLES = """\
examples:
  tierwise train bench-trl ./checkpoint
  tierwise train bench-trl ./checkpoint --domain terse_addition --prompts 4 --answers 8 --threads 1
"""
SEED = 3_000_017


def main(argv: list[str]) -> int:
    """Run `tierwise train bench-trl argv…`. 0 done, 1 failed, 2 for wrong use."""
    args = parser().parse_args(argv)
    return reported(lambda: _race(args))


def _race(args: argparse.Namespace) -> int:
    import torch

    from train.domains.catalog import get
    from train.trainer_benchmark import Load, Pace, race

    if args.threads:
        torch.set_num_threads(args.threads)
    load = Load(
        num_prompts=args.prompts,
        num_answers=args.answers,
        max_tokens=args.max_tokens,
        num_layers=args.layers,
        num_steps=args.steps,
        num_repetitions=args.repetitions,
    )

    def told(side: str, repetition: int, pace: Pace) -> None:
        done = f"repetition {repetition + 1} of {load.num_repetitions}"
        print(f"{done}: {side} {pace.tokens_per_cpu_s:.1f} tokens per CPU second", file=sys.stderr)

    domain = get(args.domain)
    prompts = [domain.item(SEED, index, 0).prompt for index in range(args.prompts)]
    try:
        found = race(args.directory, prompts, load, on_pace=told)
    except ImportError as error:
        print(f"tierwise: {error}; install the extra: pip install 'tierwise[train-oracle]'", file=sys.stderr)
        return 1
    print(f"{load}, {args.domain}, {torch.get_num_threads()} threads, float32")
    for name, paces in (("tierwise", found.ours), ("trl", found.trl)):
        rollouts = ", ".join(f"{pace.rollouts_per_s:.2f}" for pace in paces)
        tokens = ", ".join(f"{pace.tokens_per_s:.1f}" for pace in paces)
        cpu = ", ".join(f"{pace.tokens_per_cpu_s:.1f}" for pace in paces)
        print(f"{name:9} rollouts/s {rollouts}  trained tokens/s {tokens}, per CPU second {cpu}")
    print(
        f"tierwise by trl: {found.ratio('rollouts_per_s'):.2f} × rollouts/s, "
        f"{found.ratio('tokens_per_s'):.2f} × trained tokens/s; by CPU seconds "
        f"{found.ratio('rollouts_per_cpu_s'):.2f} × and {found.ratio('tokens_per_cpu_s'):.2f} ×"
    )
    return 0


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    made = new_parser("bench-trl", ABOUT, EXAMPLES)
    add_race_options(made)
    made.add_argument("--domain", default="terse_addition", help="whose prompts are asked")
    made.add_argument("--layers", type=int, default=10, help="that move, from the top")
    made.add_argument("--steps", type=int, default=2, help="that are timed in each repetition")
    return made
