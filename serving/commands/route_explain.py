"""`tierwise route explain`: decides about one prompt as the gateway would, and shows what led there.

No engine is asked: what the tiers can do is taken from their declared defaults, and every replica counts as up. λ is
the one that a gateway on the same home saved last, where it holds a budget; else the configured one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from prometheus_client import CollectorRegistry
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from router.arms import Arm, Effort
from router.decision import Candidate, Decision, Exclusion, NoArmError, Reason
from router.filter import AUTO, UnknownModelError, resolve_model
from router.offer import Metric
from router.policy import RoutingPolicy
from router.pricing import Pricing
from router.request import RequestView
from serving.commands.budget import UNITS
from serving.commands.options import add_settings_options, settings_from
from serving.gateway.arms import arms_of
from serving.gateway.budget_keeper import BudgetKeeper
from serving.gateway.router_artifact import load_difficulty
from serving.gateway.state_file import StateFile
from serving.registry.errors import RegistryError
from serving.registry.store import Store
from serving.settings import Settings
from serving.settings_sources import SettingsError
from serving.telemetry.budget_series import BudgetSeries

EXAMPLES = """\
examples:
  tierwise route "hi"
  tierwise route "Fix it" --turn "My program deadlocks: …" --max-tokens 400
  tierwise route "hi" --min-quality 0.9 --price-of-compute 100
  cat question.txt | tierwise route explain - --json
"""

REASONS: Mapping[Reason, str] = {
    Reason.BEST_VALUE: "it is worth the most: probability of success minus λ times its price",
    Reason.ONLY_CAPABLE: "no other arm can answer such a request",
    Reason.ONLY_AVAILABLE: "no other arm that could answer has a replica that is up",
    Reason.CLIENT_MODEL: "`model` asks for it",
    Reason.CLIENT_ARM: "`x-tierwise-arm` asks for it",
    Reason.CLIENT_SERVICE_TIER: "`service_tier` asks for its tier",
    Reason.QUALITY_FLOOR: "the arm that is worth the most is too likely to fail; this is the cheapest one above the "
    "floor, or the likeliest",
    Reason.MAX_COST: "the arm that is worth the most costs more than the client allows",
    Reason.SESSION_MEMORY: "the session remembers a harder turn",
    Reason.TOOL_LOOP_PIN: "it began the tool loop",
    Reason.EXPLORATION: "it was drawn by lot",
    Reason.OUT_OF_DISTRIBUTION: "the model has not seen the like, so that doubt goes to the strongest arm",
    Reason.CONSERVATIVE: "forecasts are in doubt, so that compute counts for less",
    Reason.ESCALATION: "a weaker arm began too doubtfully",
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
    Exclusion.PINNED: "another began the tool loop",
    Exclusion.DOUBT: "forecast not supported, and a stronger arm is open",
}
PRICES: Mapping[Metric, tuple[str, float]] = {
    Metric.FULL_SHARE: ("full", 1.0),
    Metric.COST_PER_REQUEST: ("cost / 1000", 1000.0),
    Metric.COST_PER_HOUR: ("cost / 1000", 1000.0),
    Metric.ENGINE_SECONDS_PER_REQUEST: ("seconds", 1.0),
}
"""How a price is shown: its heading, and how many times itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A decision, or the refusal of one, and what moved it."""

    candidates: tuple[Candidate, ...]
    contributions: Mapping[str, float]
    metric: Metric
    price_of_compute: float
    min_quality: float
    decision: Decision | None
    refusal: str | None

    def value(self, candidate: Candidate) -> float:
        """`p − λ·price`."""
        return candidate.weighed_probability - self.price_of_compute * self.metric.price(candidate.expected)


def main(argv: list[str]) -> int:
    """Explain one prompt. 0 where an arm answers it, 1 where it is refused, 2 for wrong use."""
    args = _parser().parse_args(argv)
    try:
        settings = settings_from(args)
        arms = arms_of(settings)
        view = _view(args, arms)
        model = load_difficulty(settings, Store(settings.home / "registry")).model
    except (SettingsError, UnknownModelError, RegistryError) as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 2
    policy = RoutingPolicy(model, min_quality=settings.router.min_quality)
    explanation = explain(policy, view, arms, pricing_of(settings, args.price_of_compute))
    if args.json:
        print(json.dumps(as_json(explanation), ensure_ascii=False, indent=2))
    else:
        _print(explanation, Console())
    return 0 if explanation.decision else 1


def pricing_of(settings: Settings, price_of_compute: float | None) -> Pricing:
    """What compute costs: as a gateway on the same home saved it last, or as configured; or at a given λ."""
    keeper = BudgetKeeper(
        settings.budget,
        StateFile(settings.home / "budget.json"),
        BudgetSeries(CollectorRegistry()),
        monotonic=time.monotonic,
        wall_clock=time.time,
    )
    if price_of_compute is None:
        return keeper.pricing
    return replace(keeper.pricing, price_of_compute=price_of_compute)


def explain(policy: RoutingPolicy, view: RequestView, arms: Sequence[Arm], pricing: Pricing) -> Explanation:
    """What `policy` decides about `view`, with all that it looked at."""
    decision, refusal = None, None
    try:
        decision = policy.decide(view, arms, pricing)
    except NoArmError as error:
        refusal = str(error)
    return Explanation(
        candidates=policy.consider(view, arms, pricing),
        contributions=policy.model.contributions(view),
        metric=pricing.metric,
        price_of_compute=pricing.price_of_compute,
        min_quality=policy.floor(view),
        decision=decision,
        refusal=refusal,
    )


def as_json(explanation: Explanation) -> dict[str, Any]:
    """The explanation as plain members, with each candidate's value."""
    shown = asdict(explanation)
    for candidate, member in zip(explanation.candidates, shown["candidates"], strict=True):
        member["value"] = explanation.value(candidate)
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
    parser.add_argument(
        "--price-of-compute", type=float, metavar="LAMBDA", help="λ, in the place of the one in force"
    )
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
    floor = f", at least p = {explanation.min_quality:g}" if explanation.min_quality else ""
    chance = f", chance {decision.propensity:.2f}" if decision and decision.propensity < 1 else ""
    version = f" · {decision.policy_version}, {decision.artifact_version}" if decision else ""
    console.print(
        f"λ = {explanation.price_of_compute:.4g} per {UNITS[explanation.metric]}{floor}{chance}{version}",
        style="dim",
        highlight=False,
    )


def _arms_table(explanation: Explanation) -> Table:
    table = Table("arm", "tier", title="arms", title_justify="left")
    heading, times = PRICES[explanation.metric]
    for title in ("p(success)", heading, "p − λ·price"):
        table.add_column(title, justify="right")
    table.add_column("")
    for candidate in explanation.candidates:
        is_chosen = explanation.decision is not None and candidate.arm == explanation.decision.arm
        remark = "chosen" if is_chosen else EXCLUSIONS[candidate.excluded] if candidate.excluded else ""
        table.add_row(
            escape(candidate.arm),
            escape(candidate.tier),
            f"{candidate.success_probability:.3f}",
            f"{times * explanation.metric.price(candidate.expected):.4f}",
            f"{explanation.value(candidate):.3f}",
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
