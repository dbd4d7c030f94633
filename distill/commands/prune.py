"""`tierwise distill prune`: leave out the layers, and the channels, whose going costs least."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console

from distill.commands.failures import reported
from distill.commands.options import add_text_options, new_parser

if TYPE_CHECKING:
    from distill.pruning.depth import Stage
    from distill.pruning.fidelity import Fidelity
    from train.model.llama import Llama

ABOUT = """\
Leave layers out of a model of the Llama family, or channels of its feed-forward layers, or both, layers first.

--keep N: whichever layer costs least is gone first, and all others are measured again after it. The cost is measured at
every token of the answers: how far the next token's distribution is from the whole model's (Kullback-Leibler, nats), or
how often a token drawn without the layers would be accepted with them. With --beam W the W best sets of each size go
on, not one, and greedy removal is measured beside it.

--width N: of each layer the N channels stay that are dearest to lose, by the Fisher information of a gate before each;
what is left is then measured as above, at some numbers of channels between.

Layers and channels chosen by position or by chance are measured too. DIR becomes a checkpoint which transformers and
vLLM load, and holds pruning.json: settings, what each removal cost, and what the others would have. Pruned without
training a model soon says little: distil it next.
"""
EXAMPLES = """\
examples:
  tierwise distill prune smollm2 --keep 24 --out ./smollm2-24
  tierwise distill prune smollm2 --keep 24 --beam 4 --criterion acceptance --domains chain_sum,gcd --out ./p24
  tierwise distill prune smollm2 --width 1024 --out ./narrow
  tierwise distill prune ./checkpoint --keep 20 --width 1280 --gguf --out ./p20
"""
REPORT_NAME = "pruning.json"
NUM_WIDTHS = 4
"""That are measured on the way to the one that is asked for."""


def main(argv: list[str]) -> int:
    """Run `tierwise distill prune argv…`. 0 done, 1 failed, 2 for wrong use."""
    made = parser()
    args = made.parse_args(argv)
    if args.keep is None and args.width is None:
        made.error("say how many layers stay (--keep), or how many channels (--width)")
    return reported(lambda: _run(args))


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    made = new_parser("prune", ABOUT, EXAMPLES)
    made.add_argument("--keep", type=int, metavar="N", help="layers that stay (default all)")
    made.add_argument("--beam", type=int, default=1, metavar="W", help="1, the default, is greedy removal")
    made.add_argument(
        "--criterion", choices=("divergence", "acceptance"), default="divergence", help="(default divergence)"
    )
    made.add_argument("--width", type=int, metavar="N", help="channels of each layer that stay (default all)")
    add_text_options(made)
    return made


def _run(args: argparse.Namespace) -> int:
    from distill.commands.opened import open_named
    from distill.pruning.fidelity import Fidelity
    from distill.pruning.pruned import write_checkpoint

    console = Console(stderr=True)
    opened = open_named(args, console)
    _check(args, opened.model)
    fidelity = Fidelity(opened.model, opened.texts)
    console.print(
        f"{len(opened.texts)} texts, {fidelity.num_computed} tokens, measured at {fidelity.num_tokens} of them"
    )
    told: dict[str, Any] = {
        "settings": {name: str(value) if name == "out" else value for name, value in vars(args).items()},
        "num_texts": len(opened.texts),
        "num_tokens": fidelity.num_tokens,
    }
    model = opened.model
    if args.keep is not None:
        model = _without_layers(args, fidelity, told, console)
    if args.width is not None:
        model = _narrowed(args, model, fidelity, told, console)
    write_checkpoint(model, opened.start, args.out, has_gguf=args.gguf)
    (args.out / REPORT_NAME).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    print(args.out)
    return 0


def _check(args: argparse.Namespace, model: Llama) -> None:
    from distill.pruning.width import BLOCK
    from train.run_directory import RunError

    shape = model.shape
    if args.keep is not None and not 0 < args.keep < shape.num_layers:
        raise RunError(f"the model has {shape.num_layers} layers; keep fewer, and one at least")
    if args.width is None:
        return
    if not 0 < args.width < shape.intermediate_size:
        raise RunError(f"its layers have {shape.intermediate_size} channels; keep fewer, and some at least")
    if args.gguf and args.width % BLOCK:
        raise RunError(
            f"quantised rows come in blocks of {BLOCK}; let --width be a multiple of it (K-quants: of 256)"
        )


def _without_layers(
    args: argparse.Namespace, fidelity: Fidelity, told: dict[str, Any], console: Console
) -> Llama:
    from distill.commands.prune_views import removal_table, set_table
    from distill.pruning.depth import by_position
    from distill.pruning.pruned import with_layers

    num_layers = fidelity.model.shape.num_layers
    found = {"greedy": _removed(args, fidelity, 1, console)}
    if args.beam > 1:
        found[f"beam of {args.beam}"] = _removed(args, fidelity, args.beam, console)
    stages = [*found.values()][-1]
    console.print(removal_table(stages, num_layers))
    sets = {name: each[-1].kept for name, each in found.items()}
    sets |= by_position(num_layers, num_layers - args.keep)
    scores = {name: fidelity.score(kept) for name, kept in sets.items()}
    console.print(set_table(sets, scores))
    told |= {
        "kept_layers": list(stages[-1].kept),
        "ways": {name: [stage.as_json() for stage in each] for name, each in found.items()},
        "sets": {name: {"kept": sets[name], **asdict(scores[name])} for name in sets},
    }
    return with_layers(fidelity.model, stages[-1].kept)


def _removed(args: argparse.Namespace, fidelity: Fidelity, width: int, console: Console) -> list[Stage]:
    from rich.progress import Progress

    from distill.pruning.depth import Criterion, num_measured, remove

    num_layers = fidelity.model.shape.num_layers
    num_removed = num_layers - args.keep
    with Progress(console=console, disable=not console.is_terminal) as bar:
        label = "greedy removal" if width == 1 else f"beam of {width}"
        task = bar.add_task(label, total=num_measured(num_layers, num_removed, width))
        return remove(
            fidelity,
            num_removed,
            width=width,
            criterion=Criterion(args.criterion),
            on_measured=lambda: bar.advance(task),
        )


def _narrowed(
    args: argparse.Namespace, model: Llama, fidelity: Fidelity, told: dict[str, Any], console: Console
) -> Llama:
    """The model, whole or without layers, with fewer channels; compared with the whole."""
    from rich.progress import Progress

    from distill.commands.prune_views import channel_table
    from distill.pruning.pruned import with_channels
    from distill.pruning.width import dearest, importance, unmeasured, widths_between

    shape = model.shape
    with Progress(console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("what channels cost", total=len(fidelity.texts))
        costs = importance(model, fidelity.texts, seed=args.seed, on_measured=lambda: bar.advance(task))
    widths = widths_between(shape.intermediate_size, args.width, NUM_WIDTHS)
    stages = {width: fidelity.score_of(with_channels(model, dearest(costs, width))) for width in widths}
    others = {
        name: fidelity.score_of(with_channels(model, kept))
        for name, kept in unmeasured(
            shape.num_layers, shape.intermediate_size, args.width, seed=args.seed
        ).items()
    }
    console.print(channel_table(stages, others))
    kept = dearest(costs, args.width)
    told |= {
        "kept_channels": kept,
        "widths": {width: asdict(scores) for width, scores in stages.items()},
        "other_channels": {name: asdict(scores) for name, scores in others.items()},
    }
    return with_channels(model, kept)
