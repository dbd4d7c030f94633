"""`tierwise route collect`: asks every arm of a running gateway prompts with known answers, and writes the outcomes."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import aiohttp
from rich.console import Console

from router.prompts import DOMAINS, Item
from serving.bringup.progress import ConsoleReport
from serving.commands.outcomes_file import OutcomesFile, OutcomesFileError
from serving.commands.prompts_file import PromptsFileError
from serving.commands.route_collect_client import CollectError, GatewayClient, Sampling
from serving.commands.route_collect_prompts import (
    PromptOptionsError,
    add_options,
    chosen,
    names,
    positive,
    shortfall,
)
from serving.commands.route_collect_run import Progress, collect, missing
from serving.commands.route_collect_views import print_outcomes, summary_json
from serving.settings_sources import SettingsError, secret

TIMEOUT_S: Final = 300.0
"""Of one answer, its wait in the gateway's queue included."""

ABOUT = """\
Ask every arm of a running gateway the same prompts, check the answers, and append one outcome a line to a file. What
is in the file already is not asked again, so a run that was stopped goes on where it ended.
"""

EXAMPLES = """\
domains of own prompts:
  {domains}

examples:
  tierwise route collect --out outcomes.jsonl
  tierwise route collect --out outcomes.jsonl --domains sums,capitals --levels 0,1 --n 40
  tierwise route collect --out outcomes.jsonl --prompts reasoning-gym
  tierwise route collect --out outcomes.jsonl --prompts questions.jsonl
  tierwise route collect --out outcomes.jsonl --arms fast,full-think --max-tokens 256
"""


def main(argv: list[str]) -> int:
    """Collect. 0 where every outcome is there, 1 where some are missing, 2 for wrong use, 130 interrupted."""
    parser = _parser()
    args = parser.parse_args(argv)
    progress, is_interrupted = Progress(), False
    try:
        items = chosen(args)
        key = _api_key(args)
        with OutcomesFile(args.out) as file:
            try:
                asyncio.run(_run(args, key, items, file, progress))
            except KeyboardInterrupt:
                is_interrupted = True
            _show(args, items, file, progress)
    except PromptOptionsError as error:
        parser.error(str(error))
    except SettingsError as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 2
    except (PromptsFileError, OutcomesFileError, CollectError) as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 1
    if is_interrupted:
        print(f"tierwise: stopped; the same command goes on with {args.out}", file=sys.stderr)
        return 130
    for failure in dict.fromkeys(progress.failures):
        print(f"tierwise: {progress.failures.count(failure)} without an answer: {failure}", file=sys.stderr)
    return 1 if progress.failures else 0


async def ask_gateway(
    url: str,
    items: Sequence[Item],
    file: OutcomesFile,
    progress: Progress,
    *,
    arms: Sequence[str] | None,
    key: str | None,
    sampling: Sampling,
    concurrency: int,
) -> None:
    """Ask a running gateway what the file has not, with a bar on standard error.

    Args:
        arms: one for each tier where absent.
        key: the API key, where it asks for one.

    Raises:
        CollectError: no gateway answers there.
        OutcomesFileError: a row could not be written.
    """
    async with aiohttp.ClientSession(
        headers={"authorization": f"Bearer {key}"} if key else {},
        timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
        connector=aiohttp.TCPConnector(limit=concurrency),
    ) as http:
        client = GatewayClient(http, url)
        arms = arms or await client.tiers()
        questions = missing(items, arms, file.rows)
        report = ConsoleReport(Console(stderr=True))
        label = f"{len(questions)} of {len(items) * len(arms)} answers from {', '.join(arms)}"
        with report.track(label, len(questions), "tensors") as advance:
            await collect(
                client,
                questions,
                file,
                sampling=sampling,
                concurrency=concurrency,
                clock=time.time,
                progress=progress,
                on_step=lambda now: advance(now.num_done + len(now.failures)),
            )


async def _run(
    args: argparse.Namespace, key: str | None, items: Sequence[Item], file: OutcomesFile, progress: Progress
) -> None:
    await ask_gateway(
        args.url,
        items,
        file,
        progress,
        arms=args.arms,
        key=key,
        sampling=sampling_of(args),
        concurrency=args.concurrency,
    )


def sampling_of(args: argparse.Namespace) -> Sampling:
    """How the options of `add_answer_options` want answers sampled."""
    return Sampling(max_tokens=args.max_tokens, temperature=args.temperature)


def _show(args: argparse.Namespace, items: Sequence[Item], file: OutcomesFile, progress: Progress) -> None:
    """Print what the file now has of these prompts."""
    asked = {item.prompt_id for item in items}
    rows = [row for row in file.rows if row.prompt_id in asked]
    if args.json:
        print(
            summary_json(rows, num_prompts=len(items), num_new=progress.num_done, failures=progress.failures)
        )
    else:
        print_outcomes(rows)
    if told := shortfall(args, len(items)):
        print(f"tierwise: {told}", file=sys.stderr)
    for arm in sorted({row.arm for row in rows}):
        if len(models := sorted({row.model for row in rows if row.arm == arm})) > 1:
            told = f"the answers of {arm} come from several models ({', '.join(models)}); use a file for each"
            print(f"tierwise: {told}", file=sys.stderr)


def _api_key(args: argparse.Namespace) -> str | None:
    if args.api_key_file is None:
        return secret(args.api_key_env)
    try:
        return str(args.api_key_file.read_text(encoding="utf-8")).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{args.api_key_file}: cannot be read: {error}") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tierwise route collect",
        description=ABOUT,
        epilog=EXAMPLES.format(domains=", ".join(DOMAINS)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="JSON lines; made if need be, appended to"
    )
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="the gateway (default %(default)s)")
    parser.add_argument("--arms", type=names, metavar="A,B", help="arms to ask (default: one for each tier)")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    add_options(parser)
    add_answer_options(parser)
    key = parser.add_mutually_exclusive_group()
    key.add_argument("--api-key-env", metavar="VARIABLE", help="the environment variable with the API key")
    key.add_argument("--api-key-file", type=Path, metavar="FILE", help="the file with the API key")
    return parser


def add_answer_options(parser: argparse.ArgumentParser) -> None:
    """What says how each prompt is asked."""
    answers = parser.add_argument_group("answers")
    answers.add_argument("--max-tokens", type=positive, default=32, help="the longest (default %(default)s)")
    answers.add_argument("--temperature", type=float, default=0.0, help="default %(default)s")
    answers.add_argument(
        "--concurrency", type=positive, default=8, help="answers at a time (default %(default)s)"
    )
