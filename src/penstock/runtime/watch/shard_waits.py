"""How long a worker of a sharded model stands in collectives, which FSDP2 has in every layer.

Where the processor exchanges (Gloo) a call returns when everybody's part is there: the time in it is the wait for the
slowest, and the transfer. So FSDP2 is given collectives of ours that look at the clock before and after. On CUDA a
call returns at once and the device overlaps exchange and computing: its time says nothing there, and nothing is taken.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule


class ShardWaits:
    """Adds up what the collectives of sharded models take; ``seconds`` since it was last cleared."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def clear(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds += time.monotonic() - started

    def watch(self, model: nn.Module) -> None:
        """From now on, of a model on the processor whose version of FSDP2 takes collectives of others."""
        shards = [part for part in model.modules() if isinstance(part, FSDPModule)]
        if not all(hasattr(part, "set_custom_all_gather") and _is_simple(part) for part in shards):
            return
        for part in shards:
            part.set_custom_all_gather(_AllGather(self))  # type: ignore[arg-type]
            part.set_custom_reduce_scatter(_ReduceScatter(self))  # type: ignore[arg-type]


def _is_simple(part: FSDPModule) -> bool:
    """Whether a shard is on the processor; one over several meshes takes no collectives of others."""
    groups = getattr(part._get_fsdp_state(), "_fsdp_param_groups", [None])
    return len(groups) <= 1 and all(tensor.device.type == "cpu" for tensor in _parameters(part))


def _parameters(part: Any) -> Iterator[torch.Tensor]:
    module: nn.Module = part
    return module.parameters()


class _Collective:
    def __init__(self, waits: ShardWaits) -> None:
        self._waits = waits

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)


class _AllGather(_Collective):
    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: dist.ProcessGroup, async_op: bool = False
    ) -> dist.Work | None:
        with self._waits.waiting():
            work: dist.Work | None = dist.all_gather_into_tensor(
                output_tensor, input_tensor, group=group, async_op=async_op
            )  # fmt: skip
        return work


class _ReduceScatter(_Collective):
    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> dist.Work | None:
        with self._waits.waiting():
            work: dist.Work | None = dist.reduce_scatter_tensor(
                output_tensor, input_tensor, op=op, group=group, async_op=async_op
            )  # fmt: skip
        return work
