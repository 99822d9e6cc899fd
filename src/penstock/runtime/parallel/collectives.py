"""Gathering a tensor along a dimension, with the gradient that belongs to it."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def gathered(part: Tensor, dim: int, group: dist.ProcessGroup) -> Tensor:
    """The parts of every process in the group side by side; gradients flow back to whoever owns a part."""
    return _Gather.apply(part, dim, group)  # type: ignore[no-any-return, no-untyped-call]


def own_part(whole: Tensor, dim: int, group: dist.ProcessGroup) -> Tensor:
    """This process's slice of a tensor that everyone in the group holds."""
    return whole.chunk(dist.get_world_size(group), dim)[dist.get_rank(group)].contiguous()


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, dim: int, group: dist.ProcessGroup) -> Tensor:
        ctx.dim, ctx.group = dim, group
        parts = [torch.empty_like(part) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, part.contiguous(), group=group)
        return torch.cat(parts, dim)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        total = grads[0].clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=ctx.group)
        return own_part(total, ctx.dim, ctx.group), None, None
