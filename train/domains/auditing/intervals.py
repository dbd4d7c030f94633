"""How sure a share is that was counted on few items."""

from __future__ import annotations

import math
from typing import Final

Z: Final = 2.33
"""One-sided 1 %: over a hundred honest domains, one is suspected wrongly."""


def lower_bound(share: float, num_items: int, z: float = Z) -> float:
    """The lower end of Wilson's interval (1927) for a share in [0, 1]; 0 where nothing was counted."""
    if num_items == 0:
        return 0.0
    centre = share + z * z / (2 * num_items)
    spread = z * math.sqrt(share * (1 - share) / num_items + z * z / (4 * num_items * num_items))
    return max(0.0, (centre - spread) / (1 + z * z / num_items))
