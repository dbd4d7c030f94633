"""What ticks while the gateway runs and outlives its restarts: a task, and a state that is saved now and then."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Any, Final, Self

from serving.gateway.state_file import StateFile

TICK_S: Final = 1.0

_log = logging.getLogger(__name__)


class Ticking(ABC):
    """Entered, it takes its turn every `TICK_S` and saves what is new, until it is left; then it saves once more.

    Whoever changes what is saved sets `_is_saved` to False.

    Args:
        file: where the state is kept.
        save_every_s: at the most often.
        on_fault: for the log, where a turn fails: what stays as it is then. The next turn is taken all the same.
    """

    def __init__(self, file: StateFile, *, save_every_s: float, on_fault: str) -> None:
        self._file = file
        self._save_every_s = save_every_s
        self._on_fault = on_fault
        self._is_saved = True
        self._task: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name=type(self).__name__)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})
        await self.save()

    async def save(self) -> None:
        """Write down what is known now."""
        self._is_saved = True
        await asyncio.to_thread(self._file.write, self._plain())

    @abstractmethod
    async def _turn(self) -> None:
        """What is done every tick."""

    @abstractmethod
    def _plain(self) -> dict[str, Any]:
        """What is saved."""

    async def _run(self) -> None:
        since_save_s = 0.0
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await self._turn()
            except Exception:  # noqa: BLE001  requests go on as they do now, whatever is wrong with the next turn
                _log.exception(self._on_fault)
            since_save_s += TICK_S
            if since_save_s >= self._save_every_s and not self._is_saved:
                since_save_s = 0.0
                await self.save()
