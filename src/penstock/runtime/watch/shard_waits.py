"""How long a worker of a sharded model stands in collectives, which FSDP2 has in every layer.

Where the processor exchanges (Gloo) a call returns when everybody's part is there: the time in it is the wait for the
slowest, and the transfer. So FSDP2 is given collectives of ours that look at the clock before and after. Where the
device exchanges (NCCL, or collectives that a script brought) a call returns at once, and what the device waits is
taken on its own time line (:mod:`.device_waits`).
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule

from penstock.runtime.watch.device_waits import DeviceWaits

_FSDP_OWN = "DefaultAllGather"
"""The class of the collective that FSDP2 uses where nobody gave it another."""


class ShardWaits:
    """Adds up what sharded models wait for each other; ``seconds`` since it was last cleared."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._device = DeviceWaits()

    def clear(self) -> None:
        self.seconds = 0.0
        self._device.clear()

    def settle(self) -> None:
        """The device is through with the step: what it waited is known."""
        self.seconds += self._device.settle()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds += time.monotonic() - started

    def watch(self, model: nn.Module) -> None:
        """From now on, of a model whose parts are sharded over one mesh each."""
        groups = {part: _groups(part) for part in model.modules() if isinstance(part, FSDPModule)}
        if any(len(found) > 1 for found in groups.values()):
            return
        for part, group in ((part, group) for part, found in groups.items() for group in found):
            if _is_exchanged_by_processor(group) and hasattr(part, "set_custom_all_gather"):
                part.set_custom_all_gather(_AllGather(self))  # type: ignore[arg-type]
                part.set_custom_reduce_scatter(_ReduceScatter(self))  # type: ignore[arg-type]
            elif group.device.type == "cuda":
                self._device.watch(group)


def _groups(part: FSDPModule) -> list[Any]:
    """FSDP2's groups of parameters: one, or several where meshes differ; earlier versions have one or none."""
    state = part._get_fsdp_state()
    found = getattr(state, "_fsdp_param_groups", None)
    return found if found is not None else [one for one in [state._fsdp_param_group] if one is not None]


def _is_exchanged_by_processor(group: Any) -> bool:
    """Whether a collective is over when its call returns: Gloo's, which a device's tensors may go through as well."""
    brought = type(getattr(group, "_all_gather_comm", None)).__name__ not in (_FSDP_OWN, "NoneType")
    backend: Any = group._all_gather_process_group._get_backend(group.device)
    return not brought and backend.name().lower() == "gloo"


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
