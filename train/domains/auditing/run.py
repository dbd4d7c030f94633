"""Audits domains, several at once, each over workers of its own."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed

from train.domains.audit import Record
from train.domains.auditing.examine import NUM_ITEMS, Examination
from train.domains.base import Domain
from train.verifiers.pool import Pool


def audit(
    wanted: Iterable[Domain],
    *,
    num_at_once: int = 2,
    num_items: int = NUM_ITEMS,
    on_record: Callable[[Record], None] = lambda record: None,
) -> list[Record]:
    """A record for each domain, in the order of their names; `on_record` has each as soon as it is there."""
    pairs: queue.SimpleQueue[tuple[Pool, Pool]] = queue.SimpleQueue()
    pools = [Pool(1, hash_seed=seed) for _ in range(num_at_once) for seed in (0, 1)]

    def examine(domain: Domain) -> Record:
        pair = pairs.get()
        try:
            return Examination(domain, *pair, num_items=num_items).record()
        finally:
            pairs.put(pair)

    try:
        for first, other in zip(pools[::2], pools[1::2], strict=True):
            pairs.put((first, other))
        made: list[Record] = []
        with ThreadPoolExecutor(num_at_once) as threads:
            running = [threads.submit(examine, domain) for domain in wanted]
            try:
                for done in as_completed(running):
                    made.append(done.result())
                    on_record(made[-1])
            except (
                BaseException
            ):  # an interrupt: nothing is begun any more, and what runs ends with its worker
                for future in running:
                    future.cancel()
                for pool in pools:
                    pool.close()
                raise
    finally:
        for pool in pools:
            pool.close()
    return sorted(made, key=lambda record: record.domain)
