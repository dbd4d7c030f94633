"""Prompts with known answers that a router was not fitted on, nor on any near-duplicate of them."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

import numpy as np
import orjson
from numpy.typing import NDArray

import router
from router.duplicates import duplicate_groups
from router.encoding import encode
from router.outcome_table import view_of
from router.prompts import Item, prompt_set
from router.prompts_recorded import item_of, mixed

RELEASED_OUTCOMES: Final = Path(router.__file__).parent / "data" / "released_outcomes.jsonl.gz"
"""What the released router was fitted on."""
_GZIP: Final = b"\x1f\x8b"

Source = Callable[[int], Sequence[Item]]
"""Up to so many different prompts; a larger number begins with those of a smaller one."""


class PromptsError(Exception):
    """A file of prompts or outcomes cannot be read; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What a router was fitted on, as far as it matters here."""

    prompts: tuple[str, ...]
    data_sha256: str
    """Of the file, unpacked: as in the router's manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Prompts that no fitted prompt is like."""

    items: tuple[Item, ...]
    groups: NDArray[np.int64]
    """(items,): near-duplicates among them have one number."""
    num_like_fitted: int
    """Left out, because a fitted prompt is like them."""

    def part(self, places: Sequence[int]) -> HeldOut:
        """Those at these places, in their order."""
        items = tuple(self.items[place] for place in places)
        return HeldOut(items=items, groups=self.groups[list(places)], num_like_fitted=self.num_like_fitted)


def read_outcomes(path: Path) -> Outcomes:
    """The prompts of a file of outcomes, plain or `.gz`.

    Raises:
        PromptsError: it cannot be read, or a line is no outcome.
    """
    data = _unpacked(path)
    prompts = (row["prompt"] for row in _objects(path, data))
    try:
        return Outcomes(prompts=tuple(dict.fromkeys(prompts)), data_sha256=sha256(data).hexdigest())
    except KeyError:
        raise PromptsError(f"{path}: a line has no `prompt`; name a file of outcomes") from None


def own(seed: int) -> Source:
    """Prompts made from a seed, as those of `tierwise route collect`."""
    return lambda num: prompt_set(num, seed=seed)


def recorded(path: Path) -> Source:
    """The prompts of a file of `{domain, level, prompt, answer}`, plain or `.gz`.

    Raises:
        PromptsError: it cannot be read, or a line is no prompt with an answer.
    """
    try:
        items = {item.prompt_id: item for item in map(item_of, _objects(path, _unpacked(path)))}
    except ValueError as error:
        raise PromptsError(f"{path}: {error}") from None
    return lambda num: mixed(items.values(), num)


def held_out(source: Source, num: int, fitted: Sequence[str]) -> HeldOut:
    """Up to `num` prompts of the source that no prompt in `fitted` is like, taken in turn from domains and levels.

    Alike as `router.duplicates` has it, over both sets together, so that what is like something like a fitted prompt is
    left out too.
    """
    wanted = 2 * num
    while True:
        items = source(wanted)
        groups = duplicate_groups([encode(view_of(text)).words for text in (*fitted, *_texts(items))])
        known = set(groups[: len(fitted)].tolist())
        places = [place for place, group in enumerate(groups[len(fitted) :]) if int(group) not in known]
        if len(places) >= num or len(items) < wanted:
            break
        wanted *= 2
    everything = HeldOut(
        items=tuple(items), groups=groups[len(fitted) :], num_like_fitted=len(items) - len(places)
    )
    return everything.part(places[:num])


def _texts(items: Iterable[Item]) -> list[str]:
    return [item.prompt for item in items]


def _unpacked(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data.startswith(_GZIP) else data
    except (OSError, EOFError) as error:
        raise PromptsError(f"{path}: cannot be read: {error}") from None


def _objects(path: Path, data: bytes) -> list[dict[str, str]]:
    try:
        return [orjson.loads(line) for line in data.splitlines() if line.strip()]
    except orjson.JSONDecodeError as error:
        raise PromptsError(f"{path}: not JSON lines: {error}") from None
