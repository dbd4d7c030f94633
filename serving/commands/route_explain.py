"""`tierwise route explain`: decides about one prompt as the gateway would, and shows what led there.

No engine is asked: what the tiers can do is taken from their declared defaults, and every replica counts as up.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from router.arms import Arm, Effort
from router.decision import Candidate, Decision, Exclusion, NoArmError, Reason
from router.difficulty import StructuralHeuristic
from router.filter import AUTO, UnknownModelError, resolve_model
from router.policy import RoutingPolicy
from router.request import RequestView
from serving.commands.options import add_settings_options, settings_from
from serving.gateway.arms import arms_of
from serving.settings_sources import SettingsError

EXAMPLES = """\
examples:
  tierwise route "hi"
  tierwise route "Fix it" --turn "My program deadlocks: …" --max-tokens 400
  tierwise route "hi" --min-quality 0.9 --set router.price_of_compute=100
  cat question.txt | tierwise route explain - --json
"""

REASONS: Mapping[Reason, str] = {
    Reason.BEST_VALUE: "it is worth the most: probability of success minus λ times its cost",
    Reason.ONLY_CAPABLE: "no other arm can answer such a request",
    Reason.ONLY_AVAILABLE: "no other arm that could answer has a replica that is up",
    Reason.CLIENT_MODEL: "`model` asks for it",
    Reason.CLIENT_ARM: "`x-tierwise-arm` asks for it",
    Reason.CLIENT_SERVICE_TIER: "`service_tier` asks for its tier",
    Reason.QUALITY_FLOOR: "the arm that is worth the most is too likely to fail; this is the cheapest one above the "
    "floor, or the likeliest",
    Reason.MAX_COST: "the arm that is worth the most costs more than the client allows",
}
EXCLUSIONS: Mapping[Exclusion, str] = {
    Exclusion.ENDPOINT: "does not offer the endpoint",
    Exclusion.CONTEXT: "context too short",
    Exclusion.MODALITY: "cannot take such input",
    Exclusion.TOOLS: "cannot call tools",
    Exclusion.SCHEMA: "cannot hold an answer to a schema",
    Exclusion.LOGPROBS: "returns no log-probabilities",
    Exclusion.PARAMETER: "would drop a parameter",
    Exclusion.EFFORT: "works harder than allowed",
    Exclusion.CLIENT: "not asked for",
    Exclusion.UNAVAILABLE: "no replica is up",
    Exclusion.MAX_COST: "costs more than allowed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A decision, or the refusal of one, and what moved it."""

    candidates: tuple[Candidate, ...]
    contributions: Mapping[str, float]
    price_of_compute: float
    quality_floor: float
    decision: Decision | None
    refusal: str | None


def main(argv: list[str]) -> int:
    """Explain one prompt. 0 where an arm answers it, 1 where it is refused, 2 for wrong use."""
    args = _parser().parse_args(argv)
    try:
        settings = settings_from(args)
        arms = arms_of(settings)
        view = _view(args, arms)
    except (SettingsError, UnknownModelError) as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 2
    policy = RoutingPolicy(
        StructuralHeuristic(),
        price_of_compute=settings.router.price_of_compute,
        quality_floor=settings.router.quality_floor,
    )
    explanation = explain(policy, view, arms)
    if args.json:
        print(json.dumps(as_json(explanation), ensure_ascii=False, indent=2))
    else:
        _print(explanation, Console())
    return 0 if explanation.decision else 1


def explain(policy: RoutingPolicy, view: RequestView, arms: Sequence[Arm]) -> Explanation:
    """What `policy` decides about `view`, with all that it looked at."""
    decision, refusal = None, None
    try:
        decision = policy.decide(view, arms)
    except NoArmError as error:
        refusal = str(error)
    return Explanation(
        candidates=tuple(policy.consider(view, arms).values()),
        contributions=policy.model.contributions(view),
        price_of_compute=policy.price_of_compute,
        quality_floor=max(policy.quality_floor, view.min_quality or 0.0),
        decision=decision,
        refusal=refusal,
    )


def as_json(explanation: Explanation) -> dict[str, Any]:
    """The explanation as plain members, with each candidate's value."""
    shown = asdict(explanation)
    for candidate, member in zip(explanation.candidates, shown["candidates"], strict=True):
        member["value"] = candidate.value(explanation.price_of_compute)
    return shown


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tierwise route explain",
        description="Say which arm would answer a prompt, and why.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("prompt", nargs="+", help="the last user turn; - reads it from standard input")
    parser.add_argument("--json", action="store_true", help="print the explanation as JSON")
    request = parser.add_argument_group("request", "what else it holds")
    request.add_argument(
        "--turn", action="append", default=[], metavar="TEXT", help="an earlier user turn; repeatable"
    )
    request.add_argument("--system", default="", metavar="TEXT", help="the system text")
    request.add_argument("--tools", type=int, default=0, metavar="N", help="number of tools")
    request.add_argument("--schema", action="store_true", help="a JSON schema is asked for")
    request.add_argument("--max-tokens", type=int, metavar="N", help="the longest answer allowed")
    levers = parser.add_argument_group("levers", "the client's own, as in the API")
    levers.add_argument("--model", default=AUTO, help="`auto`, a tier or an arm")
    levers.add_argument("--arm", help="`x-tierwise-arm`")
    levers.add_argument("--service-tier", choices=("auto", "default", "flex", "priority"))
    levers.add_argument(
        "--effort", choices=[effort.name.lower() for effort in Effort], help="`reasoning_effort`"
    )
    levers.add_argument("--max-cost", type=float, metavar="MONEY", help="`x-tierwise-max-cost`")
    levers.add_argument(
        "--min-quality", type=float, metavar="P", help="`x-tierwise-min-quality`, from 0 to 1"
    )
    add_settings_options(parser)
    return parser


def _view(args: argparse.Namespace, arms: Sequence[Arm]) -> RequestView:
    prompt = sys.stdin.read() if args.prompt == ["-"] else " ".join(args.prompt)
    turns = (*args.turn, prompt)
    return RequestView(
        endpoint="chat",
        model=resolve_model(args.model, arms, {}),
        turns=turns,
        system=args.system,
        num_chars=len(args.system) + sum(map(len, turns)),
        num_tools=args.tools,
        needs_schema=args.schema,
        max_output_tokens=args.max_tokens,
        service_tier=args.service_tier,
        max_effort=Effort[args.effort.upper()] if args.effort else None,
        wanted_arm=args.arm,
        max_cost=args.max_cost,
        min_quality=args.min_quality,
    )


def _print(explanation: Explanation, console: Console) -> None:
    decision = explanation.decision
    if decision is None:
        console.print(f"[bold red]refused[/]: {escape(str(explanation.refusal))}")
    else:
        console.print(f"[bold green]{escape(decision.arm)}[/] answers: {REASONS[decision.reason]}")
    console.print(_arms_table(explanation))
    console.print(_contributions_table(explanation.contributions))
    floor = f", quality floor {explanation.quality_floor:g}" if explanation.quality_floor else ""
    version = f" · {decision.policy_version}, {decision.artifact_version}" if decision else ""
    console.print(
        f"λ = {explanation.price_of_compute:g} per unit of money{floor}{version}",
        style="dim",
        highlight=False,
    )


def _arms_table(explanation: Explanation) -> Table:
    table = Table("arm", "tier", title="arms", title_justify="left")
    for heading in ("p(success)", "cost / 1000", "p − λ·cost"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for candidate in explanation.candidates:
        is_chosen = explanation.decision is not None and candidate.arm == explanation.decision.arm
        remark = "chosen" if is_chosen else EXCLUSIONS[candidate.excluded] if candidate.excluded else ""
        table.add_row(
            escape(candidate.arm),
            escape(candidate.tier),
            f"{candidate.success_probability:.3f}",
            f"{1000 * candidate.expected_cost:.4f}",
            f"{candidate.value(explanation.price_of_compute):.3f}",
            remark,
            style="bold" if is_chosen else "dim" if candidate.excluded else "",
        )
    return table


def _contributions_table(contributions: Mapping[str, float]) -> Table:
    table = Table("feature", title="what makes it hard", title_justify="left")
    table.add_column("adds", justify="right")
    moving = sorted((item for item in contributions.items() if item[1]), key=lambda item: -abs(item[1]))
    for name, part in moving:
        table.add_row(escape(name), f"{part:+.3f}")
    if not moving:
        table.add_row("nothing", "")
    return table
