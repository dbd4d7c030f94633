"""Every draw of a run from its seed and the draw's name: no generator has a state that a resume could lose."""

from __future__ import annotations

import hashlib


def seed_of(run_seed: int, *name: str | int) -> int:
    """A seed in [0, 2⁶³) for the draw of this name, the same in every process and for ever.

    Names are told apart by their parts: `("a", 1)` and `("a1",)` are two draws.
    """
    text = repr((run_seed, *name)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1
