"""How fast weights move, step by step."""

from __future__ import annotations

import math

LAST_SHARE = 0.1
"""Of the height, at the last step."""


def warmed_cosine(step: int, *, height: float, num_warmup_steps: int, num_steps: int) -> float:
    """Of step 0 … `num_steps` − 1: linear to the height, then a cosine to a tenth of it."""
    if step < num_warmup_steps:
        return height * (step + 1) / (num_warmup_steps + 1)
    progress = (step - num_warmup_steps) / max(1, num_steps - num_warmup_steps)
    return height * (LAST_SHARE + (1 - LAST_SHARE) * (1 + math.cos(math.pi * progress)) / 2)
