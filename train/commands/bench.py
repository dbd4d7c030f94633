"""`tierwise train bench`: the in-process sampler against transformers' `generate`."""

from __future__ import annotations

import argparse

from train.commands.failures import reported
from train.commands.options import add_race_options, new_parser

EXAMPLES = """\
examples:
  tierwise train bench ./checkpoint
  tierwise train bench ./checkpoint --prompts 4 --answers 16 --max-tokens 32 --threads 1
"""


def main(argv: list[str]) -> int:
    """Run `tierwise train bench argv…`. 0 done, 1 failed, 2 for wrong use."""
    args = parser().parse_args(argv)
    return reported(lambda: _bench(args))


def _bench(args: argparse.Namespace) -> int:
    import torch

    from train.sampler_benchmark import Load, compare

    if args.threads:
        torch.set_num_threads(args.threads)
    load = Load(
        num_prompts=args.prompts,
        num_answers=args.answers,
        max_tokens=args.max_tokens,
        num_slots=args.slots,
        num_repetitions=args.repetitions,
    )
    found = compare(args.directory, load)
    print(f"{load}, {torch.get_num_threads()} threads, float32")
    for way, timings in found.timings.items():
        rates = ", ".join(f"{each.num_tokens / each.wall_s:.0f}" for each in timings)
        cpu = ", ".join(f"{each.num_tokens / each.cpu_s:.0f}" for each in timings)
        print(f"{way:9} tokens/s {rates}  per CPU second {cpu}")
    for way, gap in found.gaps.items():
        print(
            f"{way:9} {found.ratio(way):.2f} × generate by wall clock, {found.ratio(way, by='cpu_s'):.2f} × by CPU; "
            f"log-probabilities against the model's: mean {gap.mean:+.4f}, absolute {gap.mean_absolute:.4f}, "
            f"largest {gap.largest:.3f} nats"
        )
    return 0


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    made = new_parser(
        "bench",
        "Sample with the in-process sampler and with transformers' generate, in turn, and compare.",
        EXAMPLES,
    )
    add_race_options(made)
    made.add_argument("--slots", type=int, default=64, help="answers computed at once")
    return made
