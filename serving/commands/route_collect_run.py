"""A collection while it runs: what is still missing is asked, a bounded number at a time, and written as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from router.outcomes import OutcomeRow
from router.prompts import Item
from serving.commands.outcomes_file import OutcomesFile, OutcomesFileError
from serving.commands.route_collect_client import CollectError, GatewayClient, Sampling

MAX_FAILURES_IN_A_ROW: Final = 20
"""Then the gateway is gone, or refuses everything, and the collection ends."""

Question = tuple[Item, str]
"""An item and the arm to ask."""


@dataclass(slots=True)
class Progress:
    """How far a collection is."""

    num_done: int = 0
    failures: list[str] = field(default_factory=list)
    """What was said of each question that got no answer. They are asked again by the next run."""
    num_failed_in_a_row: int = 0

    @property
    def is_hopeless(self) -> bool:
        """Whether too many questions in a row got no answer."""
        return self.num_failed_in_a_row >= MAX_FAILURES_IN_A_ROW


def missing(items: Iterable[Item], arms: Sequence[str], rows: Iterable[OutcomeRow]) -> list[Question]:
    """What no row answers yet: every arm of a prompt before the next prompt."""
    done = {row.key for row in rows}
    return [(item, arm) for item in items for arm in arms if (item.prompt_id, arm) not in done]


async def collect(
    client: GatewayClient,
    questions: Sequence[Question],
    file: OutcomesFile,
    *,
    sampling: Sampling,
    concurrency: int,
    clock: Callable[[], float],
    progress: Progress,
    on_step: Callable[[Progress], None],
) -> None:
    """Ask the questions and append an outcome for each answer.

    Args:
        clock: gives Unix time.
        progress: kept up to date, also for a caller that cancels.
        on_step: called after each question.

    Raises:
        OutcomesFileError: a row could not be written.
    """
    queue = iter(questions)

    async def work(questions: Iterator[Question]) -> None:
        for item, arm in questions:
            try:
                file.append(await _outcome(client, item, arm, sampling, clock))
                progress.num_done += 1
                progress.num_failed_in_a_row = 0
            except CollectError as error:
                progress.failures.append(str(error))
                progress.num_failed_in_a_row += 1
            on_step(progress)
            if progress.is_hopeless:
                return

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(questions))):
                group.create_task(work(queue))
    except* OutcomesFileError as errors:
        fault = errors.exceptions[0]
    else:
        return
    raise fault


async def _outcome(
    client: GatewayClient, item: Item, arm: str, sampling: Sampling, clock: Callable[[], float]
) -> OutcomeRow:
    answer = await client.ask(item.prompt, arm=arm, sampling=sampling)
    return OutcomeRow(
        prompt_id=item.prompt_id,
        domain=item.domain,
        level=item.level,
        prompt=item.prompt,
        arm=arm,
        model=answer.model,
        success=item.passes(answer.text),
        answer=answer.text,
        num_input_tokens=answer.num_input_tokens,
        num_output_tokens=answer.num_output_tokens,
        cost=answer.cost,
        created_at=clock(),
        first_tokens=answer.first_tokens,
    )
