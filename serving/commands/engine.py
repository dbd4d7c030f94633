"""`tierwise engine`: run one tier's engine by itself, or say how it would be run and why."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import shlex
import sys
import time
from pathlib import Path
from typing import TextIO

import aiohttp

from serving.bringup.draft_model import draft_model
from serving.bringup.materialize import engine_model
from serving.bringup.progress import LineReport
from serving.commands.options import add_settings_options, settings_from
from serving.engines.base import Endpoint, EngineCapabilities, EngineError
from serving.engines.engine_log import EngineLog
from serving.engines.external import ExternalSettings
from serving.engines.llamacpp import LlamaCppEngine, LlamaCppSettings
from serving.engines.llamacpp_draft import describe_draft
from serving.engines.llamacpp_plan import Plan
from serving.engines.supervisor import Supervisor
from serving.registry.errors import RegistryError
from serving.registry.store import Store
from serving.settings import Settings, TierSettings
from serving.settings_sources import SettingsError, environment

ABOUT = """\
A tier's engine is a server process that speaks the OpenAI API. `serve` starts one for each tier; these verbs are for
looking at one alone.
"""
EXAMPLES = {
    "": """\
examples:
  tierwise engine describe --tier fast        what would be started, and why so many threads and slots
  tierwise engine run --tier fast             start it alone; Ctrl-C ends it
""",
    "describe": """\
examples:
  tierwise engine describe --tier full
  tierwise engine describe --tier full --json
  tierwise engine describe --tier full --set tiers.full.engine.slots=16
""",
    "run": """\
examples:
  tierwise engine run --tier fast
  tierwise engine run --tier fast --set tiers.fast.engine.context_tokens=2048
""",
}
PORT_TO_SHOW = 0
"""`describe` starts nothing, so it takes no port; a real start takes a free one."""


def main(argv: list[str]) -> int:
    """Run `tierwise engine argv…`. 0 done, 1 failed, 2 for wrong use."""
    args = parser().parse_args(argv)
    try:
        settings = settings_from(args)
        return int(args.run(args.tier, _tier(settings, args.tier), settings))
    except (SettingsError, RegistryError, EngineError) as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    """The verb's parser, with a sub-verb's function in `run`."""
    made = argparse.ArgumentParser(
        prog="tierwise engine",
        description=ABOUT,
        epilog=EXAMPLES[""],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = made.add_subparsers(metavar="SUB-VERB", required=True)
    for name, about, run in (
        ("describe", "print the command line, and the reasons for what was chosen", describe),
        ("run", "start the engine and keep it running until Ctrl-C", run_engine),
    ):
        verb = verbs.add_parser(
            name,
            help=about,
            description=about[0].upper() + about[1:] + ".",
            epilog=EXAMPLES[name],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        verb.add_argument("--tier", required=True, metavar="NAME", help="which tier of the configuration")
        verb.set_defaults(run=run)
        if run is describe:
            verb.add_argument(
                "--json",
                dest="run",
                action="store_const",
                const=describe_as_json,
                help="the model's file, the command line and what was chosen, as JSON",
            )
        add_settings_options(verb)
    return made


def describe(name: str, tier: TierSettings, settings: Settings) -> int:
    """Print how the tier's engine would be started.

    Raises:
        RegistryError, EngineError: its model is not there, or cannot be served here.
    """
    if isinstance(tier.engine, ExternalSettings):
        print(f"{name}: runs already, at {', '.join(tier.engine.urls)}")
        print(f"  model    {tier.engine.model or 'the only one that /v1/models lists'}")
        print(f"  api key  {f'${tier.engine.api_key_env}' if tier.engine.api_key_env else 'none'}")
        return 0
    engine, model = _engine(tier.engine, tier, settings)
    launch = engine.launch(tier=name, model=model, port=PORT_TO_SHOW)
    print(f"{name}: {tier.model}\n\n  {shlex.join(launch.argv)}\n\nits environment, beside PATH and the like")
    for variable, value in launch.env.items():
        print(f"  {variable}={'<drawn for each start>' if value == launch.api_key else value}")
    print("\nchosen")
    _print_plan(engine.plan(model))
    _print_draft(tier.engine)
    print(f"\nits log  {_log(name, settings)}")
    return 0


def describe_as_json(name: str, tier: TierSettings, settings: Settings) -> int:
    """Print the same of an engine that is started here, for programs.

    Raises:
        RegistryError, EngineError: as `describe`, or it runs already.
    """
    node = _started_here(name, tier)
    engine, model = _engine(node, tier, settings, to=sys.stderr)
    argv = engine.launch(tier=name, model=model, port=PORT_TO_SHOW).argv
    plan = dataclasses.asdict(engine.plan(model))
    draft = node.draft and node.draft.model_dump(mode="json")
    log = str(_log(name, settings))
    print(json.dumps({"model": str(model), "argv": argv, "plan": plan, "draft": draft, "log": log}))
    return 0


def run_engine(name: str, tier: TierSettings, settings: Settings) -> int:
    """Run the tier's engine until an interrupt.

    Raises:
        RegistryError, EngineError: its model is not there, or it does not start.
    """
    node = _started_here(name, tier)
    engine, model = _engine(node, tier, settings)
    _print_plan(engine.plan(model))
    _print_draft(node)
    supervisor = Supervisor(
        name,
        engine,
        model=model,
        log=EngineLog(_log(name, settings)),
        environ=environment(),
        on_ready=_say_ready,
        on_down=lambda url, reason: print(f"{url} is down: {reason}", flush=True),
        on_loading=lambda elapsed_s: print(f"  loading, {elapsed_s:.0f} s", flush=True),
        clock=time.monotonic,
    )
    asyncio.run(_supervise(supervisor))
    return 0


async def _supervise(supervisor: Supervisor) -> None:
    async with aiohttp.ClientSession() as session:
        await supervisor.run(session)


def _say_ready(endpoint: Endpoint, capabilities: EngineCapabilities) -> None:
    print(
        f"\n{capabilities.model_id} is ready: {capabilities.num_slots} slots "
        f"of {capabilities.context_tokens:,} tokens\n\n"
        f"  curl {endpoint.url}/v1/chat/completions -H 'authorization: Bearer {endpoint.api_key}' \\\n"
        '    -H \'content-type: application/json\' -d \'{"messages": [{"role": "user", "content": "hi"}]}\'\n\n'
        "Ctrl-C ends it.",
        flush=True,
    )


def _print_plan(plan: Plan) -> None:
    rows = {
        "threads": str(plan.threads),
        "threads_alone": str(plan.threads_alone),
        "slots": str(plan.slots),
        "context_tokens": f"{plan.context_tokens:,}",
        "prompt_cache_bytes": f"{plan.prompt_cache_bytes >> 20:,} MiB",
    }
    for name, value in rows.items():
        print(f"  {name.removesuffix('_bytes'):<16}{value:>10}   {plan.reasons[name]}")


def _print_draft(node: LlamaCppSettings) -> None:
    if node.draft is not None:
        print(f"\ndraft\n  {describe_draft(node.draft)}; no log-probabilities")


def _tier(settings: Settings, name: str) -> TierSettings:
    if name not in settings.tiers:
        raise SettingsError(f"there is no tier {name!r}; the configuration has {', '.join(settings.tiers)}")
    return settings.tiers[name]


def _started_here(name: str, tier: TierSettings) -> LlamaCppSettings:
    if isinstance(tier.engine, ExternalSettings):
        raise EngineError(
            f"tier {name} runs already, at {tier.engine.urls[0]}: there is nothing to start here"
        )
    return tier.engine


def _engine(
    node: LlamaCppSettings, tier: TierSettings, settings: Settings, *, to: TextIO | None = None
) -> tuple[LlamaCppEngine, Path]:
    """As `serve` would make it: sharing the machine with the other tiers."""
    assert tier.model is not None, "settings ask for the model of an engine that is launched"
    num_sharing = sum(isinstance(other.engine, LlamaCppSettings) for other in settings.tiers.values())
    store = Store(settings.home / "registry")
    report = LineReport(lambda line: print(line, file=to, flush=True))
    model = engine_model(store, tier.model, report, quantization=node.quantization)
    draft = draft_model(store, node.draft, report)
    return LlamaCppEngine(node, num_sharing=num_sharing, draft_model=draft), model


def _log(name: str, settings: Settings) -> Path:
    return settings.home / "logs" / f"{name}.log"
