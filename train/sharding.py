"""Tensors of which each process has a part (FSDP2's), made whole and parted again; plain ones are left as they are.

Both are done by all processes at once, for a whole one is put together from everybody's part.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor


def whole(tensor: Tensor) -> Tensor:
    """All of it, in every process; without gradient."""
    detached = tensor.detach()
    return detached.full_tensor() if isinstance(detached, DTensor) else detached


def parted_like(tensor: Tensor, like: Tensor) -> Tensor:
    """This process's part of `tensor`, which every process has whole, as `like` is parted."""
    if not isinstance(like, DTensor):
        return tensor
    here = tensor.to(like.device)
    # without a source: everybody has it already, so nothing is sent
    return distribute_tensor(here, like.device_mesh, like.placements, src_data_rank=None)


@torch.no_grad()
def put(tensor: Tensor, into: Tensor) -> None:
    """Let `into` have the numbers of `tensor`, which is whole."""
    into.copy_(parted_like(tensor, into))
