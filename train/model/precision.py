"""In what a forward pass computes its products. Weights, their gradients and the optimiser stay in single precision.

A step of 1e-5 is less than half a unit of a weight in bfloat16: weights that were held in it would not move. So they
are held in full and turned for each product (`torch.autocast`); norms, rotations, residuals and the logits stay as they
are. A CPU with bfloat16 units (`avx512_bf16`, `amx_bf16`) computes twice the products a second; on one without it is
slower, and serves to test the way that a GPU goes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def products_in(dtype: torch.dtype | None, device: torch.device) -> AbstractContextManager[object]:
    """Within it linear maps and attention are computed in `dtype`; None: in that of the weights."""
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)


def held_in(dtype: torch.dtype | None, weight: Tensor) -> Tensor:
    """A weight as products in `dtype` take it, for whoever uses it many times; None: as it is."""
    return weight if dtype is None else weight.to(dtype)
