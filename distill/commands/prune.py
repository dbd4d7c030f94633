"""`tierwise distill prune`: leave out the layers whose going costs least, measured one by one."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from distill.commands.failures import reported
from distill.commands.options import add_text_options, new_parser

if TYPE_CHECKING:
    from distill.commands.opened import Opened
    from distill.pruning.depth import Stage
    from distill.pruning.fidelity import Fidelity, Scores

ABOUT = """\
Leave layers out of a model of the Llama family: whichever costs least is gone first, and all others are measured again
after it. The cost is measured at every token of the answers: how far the next token's distribution is from the whole
model's (Kullback-Leibler, nats), or how often a token drawn without the layers would be accepted with them.
With --beam W the W best sets of each size go on, not one, and greedy removal is measured beside it. Layers chosen by
position alone are measured too.

DIR becomes a checkpoint with fewer layers, which transformers and vLLM load, and holds pruning.json: settings, what
each removal cost, and what the others would have. Pruned without training a model soon says little: distil it next.
"""
EXAMPLES = """\
examples:
  tierwise distill prune smollm2 --keep 24 --out ./smollm2-24
  tierwise distill prune smollm2 --keep 24 --beam 4 --criterion acceptance --domains chain_sum,gcd --out ./p24
  tierwise distill prune ./checkpoint --keep 12 --gguf --out ./p12
"""
REPORT_NAME = "pruning.json"


def main(argv: list[str]) -> int:
    """Run `tierwise distill prune argv…`. 0 done, 1 failed, 2 for wrong use."""
    args = parser().parse_args(argv)
    return reported(lambda: _run(args))


def _run(args: argparse.Namespace) -> int:
    from distill.commands.opened import open_named
    from train.run_directory import RunError

    console = Console(stderr=True)
    opened = open_named(args, console)
    num_layers = opened.model.shape.num_layers
    if not 0 < args.keep < num_layers:
        raise RunError(f"the model has {num_layers} layers; keep fewer, and one at least")
    _prune(args, opened, console)
    print(args.out)
    return 0


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    made = new_parser("prune", ABOUT, EXAMPLES)
    made.add_argument("--keep", type=int, required=True, metavar="N", help="layers that stay")
    made.add_argument("--beam", type=int, default=1, metavar="W", help="1, the default, is greedy removal")
    made.add_argument(
        "--criterion", choices=("divergence", "acceptance"), default="divergence", help="(default divergence)"
    )
    add_text_options(made)
    return made


def _prune(args: argparse.Namespace, opened: Opened, console: Console) -> None:
    from distill.pruning.depth import by_position
    from distill.pruning.fidelity import Fidelity
    from distill.pruning.pruned import with_layers, write_checkpoint

    fidelity = Fidelity(opened.model, opened.texts)
    console.print(
        f"{len(opened.texts)} texts, {fidelity.num_computed} tokens, measured at {fidelity.num_tokens} of them"
    )
    num_layers = opened.model.shape.num_layers
    found = {"greedy": _removed(args, fidelity, 1, console)}
    if args.beam > 1:
        found[f"beam of {args.beam}"] = _removed(args, fidelity, args.beam, console)
    stages = [*found.values()][-1]
    console.print(_removal_table(stages, num_layers))
    sets = {name: each[-1].kept for name, each in found.items()}
    sets |= by_position(num_layers, num_layers - args.keep)
    scores = {name: fidelity.score(kept) for name, kept in sets.items()}
    console.print(_set_table(sets, scores))
    write_checkpoint(with_layers(opened.model, stages[-1].kept), opened.start, args.out, has_gguf=args.gguf)
    told: dict[str, Any] = {
        "settings": {name: str(value) if name == "out" else value for name, value in vars(args).items()},
        "num_texts": len(opened.texts),
        "num_tokens": fidelity.num_tokens,
        "kept_layers": list(stages[-1].kept),
        "ways": {name: [stage.as_json() for stage in each] for name, each in found.items()},
        "sets": {name: {"kept": sets[name], **_as_json(scores[name])} for name in sets},
    }
    (args.out / REPORT_NAME).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


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


def _removal_table(stages: list[Stage], num_layers: int) -> Table:
    table = Table(title="what each removal costs", title_justify="left")
    for name in ("layers", "left out", "divergence, nats", "acceptance", "same greedy", "worst would cost"):
        table.add_column(name, justify="right")
    before = tuple(range(num_layers))
    for stage in stages:
        # a beam's best set need not lie inside the best set before it
        changed = [str(layer) for layer in before if layer not in stage.kept]
        changed += [f"+{layer}" for layer in stage.kept if layer not in before]
        worst = max(scores.divergence for scores in stage.alternatives.values())
        table.add_row(str(len(stage.kept)), " ".join(changed), *_cells(stage.scores), f"{worst:.3f}")
        before = stage.kept
    return table


def _set_table(sets: dict[str, tuple[int, ...]], scores: dict[str, Scores]) -> Table:
    table = Table(title="ways to choose as many", title_justify="left")
    for name in ("way", "divergence, nats", "acceptance", "same greedy", "kept"):
        table.add_column(name, justify="left" if name in {"way", "kept"} else "right")
    for name, kept in sets.items():
        table.add_row(name, *_cells(scores[name]), " ".join(map(str, kept)))
    return table


def _cells(scores: Scores) -> tuple[str, str, str]:
    return f"{scores.divergence:.3f}", f"{scores.acceptance:.3f}", f"{scores.greedy_share:.3f}"


def _as_json(scores: Scores) -> dict[str, float]:
    return {
        "divergence": scores.divergence,
        "acceptance": scores.acceptance,
        "greedy_share": scores.greedy_share,
    }
