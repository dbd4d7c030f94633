"""`tierwise distill publish`: a student, a draft or a quantised model into the registry, if the gate lets it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from distill.commands.failures import reported
from distill.commands.measuring import add_measuring_options, questions_of, trying_of
from distill.commands.options import new_parser
from train.commands.options import add_home_option

if TYPE_CHECKING:
    from distill.gate import Wanted
    from distill.publish import Wishes

ABOUT = """\
Publish CANDIDATE, if it passes: what it keeps of the full model's score, no domain far below, what it costs, licence,
tokenizer, size, and that the engines come up on it; of a draft, that the cost model finds it pays. What was not
measured does not pass. The table goes to stderr; what is refused leaves the registry as it was, with status 1.

CANDIDATE is a run of `tierwise distill student`, published as its difference to its base and judged as serving will
make it (RUN/packed/served.gguf); the directory of a draft head; or, with --as, a checkpoint's directory or a GGUF file.
Scores that `tierwise distill quantize --score-items` verified of these very weights, made of this TEACHER, are read
from quantization.json beside them; --ask-again measures them.
"""
EXAMPLES = """\
examples:
  tierwise distill publish runs/student --against full@stable --name fast-student --alias fast@candidate
  tierwise distill publish runs/student --against full@stable --name fast-student --evaluation evaluation.json
  tierwise distill publish ./head/speculator --against full@stable --name draft --cost-model cost.json --engines vLLM
  tierwise distill publish ./full-Q4_K.gguf --as quantised --against full@stable --name full-q4_k --engines llama.cpp

To release a student with the code, copy <home>/registry/artifacts/NAME/VERSION to serving/released/student.
"""


def main(argv: list[str]) -> int:
    """Run `tierwise distill publish argv…`. 0 published, 1 refused or failed, 2 for wrong use."""
    args = parser().parse_args(argv)
    return reported(lambda: _publish(args))


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    made = new_parser("publish", ABOUT, EXAMPLES)
    made.add_argument("candidate", type=Path, metavar="CANDIDATE", help="what is published")
    made.add_argument("--name", required=True, help="of the artifact")
    made.add_argument("--alias", metavar="NAME@LABEL", help="let an alias point at it")
    made.add_argument("--licence", metavar="SPDX", help="the base's where absent")
    made.add_argument(
        "--as", dest="candidacy", choices=("draft", "quantised"), help="of what is no run and no head"
    )
    made.add_argument(
        "--evaluation", type=Path, metavar="FILE", help="of `evaluate --out`; measured where absent"
    )
    made.add_argument("--ask-again", action="store_true", help="measure scores that quantize has verified")
    made.add_argument("--cost-model", type=Path, metavar="FILE", help="of a draft: JSON of `cost-model`")
    add_measuring_options(made)
    form = made.add_argument_group("form of a student")
    form.add_argument("--rank", type=int, metavar="R", help="cut differences of matrices to this rank")
    form.add_argument(
        "--difference",
        choices=("Q4_0", "Q5_0", "Q8_0"),
        default="Q4_0",
        help="where they are whole (default Q4_0)",
    )
    form.add_argument(
        "--served", default="Q4_0", metavar="TYPE", help="what the tier's engine loads (default Q4_0)"
    )
    gate = made.add_argument_group("gate")
    gate.add_argument("--min-retention", type=float, metavar="X", help="(default 0.90)")
    gate.add_argument("--max-domain-drop", type=float, metavar="X", help="(default 0.10)")
    gate.add_argument(
        "--max-cost-share", type=float, metavar="X", help="of the full model's (default 0.40; quantised 1.00)"
    )
    gate.add_argument("--cost-of", choices=("token", "solved"), help="(default token)")
    gate.add_argument("--cost-streams", type=int, metavar="N", help="at which cost is compared (default 16)")
    gate.add_argument("--max-bytes", type=int, metavar="N", help="of a student (default 25000000)")
    gate.add_argument(
        "--licences", metavar="SPDX,SPDX", help="that are permissive (a usual list where absent)"
    )
    add_home_option(made)
    return made


def _publish(args: argparse.Namespace) -> int:
    import torch
    from rich.console import Console

    from distill.commands.evaluate_views import gate_table
    from distill.publish import publish, refit_command
    from serving.bringup.progress import ConsoleReport
    from serving.registry.store import Store
    from train.commands.options import home_of

    if args.threads is not None:
        torch.set_num_threads(args.threads)
    console = Console(stderr=True)
    store, report = Store(home_of(args) / "registry"), ConsoleReport(console)
    wishes = _wishes(args)
    artifact = publish(
        args.candidate,
        args.against,
        wishes,
        store,
        report,
        questions=lambda: questions_of(args, str(args.candidate), store, report),
        trying=trying_of(args, quantization=args.served),
        on_verdict=lambda verdict: console.print(gate_table(verdict)),
    )
    if command := refit_command(artifact, wishes.alias):
        report.say("the router does not know this tier yet; fit it anew:")
        report.say(f"  {command}")
    print(artifact.reference)
    return 0


def _wishes(args: argparse.Namespace) -> Wishes:
    from distill.gate import Candidacy
    from distill.packing import Form
    from distill.publish import Wishes
    from serving.registry.reference import parse_alias

    return Wishes(
        name=args.name,
        alias=parse_alias(args.alias) if args.alias else None,
        licence=args.licence,
        candidacy=Candidacy(args.candidacy) if args.candidacy else None,
        form=Form(rank=args.rank, difference=args.difference, served=args.served),
        wanted=_wanted(args),
        is_asked_again=args.ask_again,
        evaluation=args.evaluation,
        predictions=args.cost_model,
    )


def _wanted(args: argparse.Namespace) -> Wanted:
    """The gate's own settings, but for those that were said."""
    from pydantic import ValidationError

    from distill.gate import ENGINES, Wanted
    from train.run_directory import RunError

    said = {
        "min_retention": args.min_retention,
        "max_domain_drop": args.max_domain_drop,
        "max_cost_share": args.max_cost_share or (1.0 if args.candidacy == "quantised" else None),
        "cost_of": args.cost_of,
        "num_streams": args.cost_streams,
        "max_bytes": args.max_bytes,
        "licences": frozenset(args.licences.split(",")) if args.licences else None,
        "engines": args.engines or ENGINES,
    }
    try:
        return Wanted.model_validate({name: value for name, value in said.items() if value is not None})
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise RunError(f"--{str(fault['loc'][0]).replace('_', '-')}: {fault['msg']}") from None
