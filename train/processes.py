"""Processes of `accelerate launch` that do one run together, in step: shares, exchanges, and what the first does alone.

All of them go through the same program and come to the same exchanges. Where they have come apart, because something
answered differently in one of them, the next exchange says so; it neither waits for ever nor mixes things up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import torch.distributed as dist

if TYPE_CHECKING:
    from accelerate import Accelerator

T = TypeVar("T")
R = TypeVar("R")


class ApartError(Exception):
    """Processes that should do the same do not."""


class TogetherError(Exception):
    """A recipe asks for what several processes cannot do together; the message names the remedy."""


class Processes:
    """This process among those that were launched together.

    Args:
        accelerator: of this process; it has set the process group up. None: this process is alone.
    """

    def __init__(self, accelerator: Accelerator | None) -> None:
        self.rank: int = 0 if accelerator is None else accelerator.process_index
        self.num: int = 1 if accelerator is None else accelerator.num_processes

    @property
    def is_first(self) -> bool:
        """Whether what is done once is done here."""
        return self.rank == 0

    def share(self, whole: Sequence[T], rank: int | None = None) -> list[T]:
        """Every `num`-th member from this process's place, or another's."""
        return list(whole[self.rank if rank is None else rank :: self.num])

    def gathered(self, mine: T, about: str = "") -> list[T]:
        """What each process gives here, in the order of ranks.

        Args:
            mine: to be pickled.
            about: what it is; the same in all of them.

        Raises:
            ApartError: it is not.
        """
        if self.num == 1:
            return [mine]
        found: list[Any] = [None] * self.num
        dist.all_gather_object(found, (about, mine))
        if len(said := {each[0] for each in found}) > 1:
            raise ApartError(
                f"the processes of this run have come apart ({' against '.join(sorted(said))}): something that should "
                "depend on the seed alone, a domain's items or its tools, does not; run it in one process"
            )
        return [each[1] for each in found]

    def spread(self, whole: Sequence[T], do: Callable[[list[T]], Sequence[R]], about: str = "") -> list[R]:
        """What `do` makes of all members, one for one and in their order; each process does its share."""
        parts = self.gathered(do(self.share(whole)), f"{about} of {len(whole)}")
        return [parts[place % self.num][place // self.num] for place in range(len(whole))]

    def is_any(self, claim: bool) -> bool:
        """Whether it holds in one of them at least."""
        return any(self.gathered(claim, "a claim"))

    def by_first(self, do: Callable[[], T]) -> T:
        """What the first process makes of it, in all of them; what it raises, all raise."""
        if self.num == 1:
            return do()
        told: list[Any] = [None, None]
        if self.is_first:
            try:
                told[0] = do()
            except Exception as error:  # noqa: BLE001  it crosses to the other processes and is raised again in each
                told[1] = error
        dist.broadcast_object_list(told, src=0)
        if told[1] is not None:
            raise told[1]
        result: T = told[0]
        return result

    @contextmanager
    def after_first(self) -> Iterator[None]:
        """The first process does what is in it, and the others once it has: they find what it has brought in."""
        if self.is_first:
            yield
        if self.num > 1:
            dist.barrier()
        if not self.is_first:
            yield


ALONE: Final = Processes(None)


@contextmanager
def joined() -> Iterator[Processes]:
    """With whom this process was launched, from its environment; alone without any.

    Left by an error, the others are not waited for: the launcher ends them.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    from accelerate import Accelerator

    yield Processes(Accelerator(cpu=True))  # other devices are refused (`train.scale_out`)
    dist.barrier()  # or the first to leave would take the store away from those that still exchange something
    dist.destroy_process_group()
