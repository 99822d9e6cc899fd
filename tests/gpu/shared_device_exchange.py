"""Collectives for FSDP2 between processes that share one GPU, where NCCL refuses to make a group.

They run on the device as NCCL's do: a call returns at once, the stream it was made on waits for the peers, and other
streams compute meanwhile. Peers read each other's memory through CUDA IPC, and say by numbers in that memory how far
they have come: the driver writes them and waits for them in the order of a stream.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.reductions import reduce_tensor

_AT_LEAST = 0
"""The driver's name for waiting until a number in memory is as large as a given one."""


@dataclass(slots=True)
class _Stage:
    """Memory of all members, their own and the peers': what they put in, and how often they put in and took out."""

    parts: list[torch.Tensor]
    put: list[torch.Tensor]
    taken: list[torch.Tensor]
    rounds: int = 0


class _Exchange:
    def __init__(self) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._stages: dict[tuple[int, torch.dtype], _Stage] = {}

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def _gathered(self, mine: torch.Tensor, group: dist.ProcessGroup) -> "_Stage":
        """What every peer has put in, to be read on the present stream, which waits for them; then :meth:`_done`."""
        key, rank = (mine.numel(), mine.dtype), group.rank()
        if key not in self._stages:
            self._stages[key] = _shared_stage(mine, group)
        stage = self._stages[key]
        for taken in stage.taken:
            self._wait(taken, stage.rounds)
        stage.rounds += 1
        stage.parts[rank].copy_(mine.flatten())
        self._write(stage.put[rank], stage.rounds)
        for put in stage.put:
            self._wait(put, stage.rounds)
        return stage

    def _done(self, stage: _Stage, rank: int) -> None:
        self._write(stage.taken[rank], stage.rounds)

    def _write(self, number: torch.Tensor, value: int) -> None:
        self._call("cuStreamWriteValue32_v2", number, value, 0)

    def _wait(self, number: torch.Tensor, value: int) -> None:
        self._call("cuStreamWaitValue32_v2", number, value, _AT_LEAST)

    def _call(self, name: str, number: torch.Tensor, value: int, flags: int) -> None:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        status = getattr(self._driver, name)(
            stream, ctypes.c_uint64(number.data_ptr()), ctypes.c_uint32(value), ctypes.c_uint(flags)
        )
        assert status == 0, f"{name}: CUDA error {status}"


class AllGather(_Exchange):
    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: dist.ProcessGroup, async_op: bool = False
    ) -> None:
        assert not async_op, "whoever waits does so on a stream"
        stage = self._gathered(input_tensor, group)
        for part, theirs in zip(output_tensor.flatten().chunk(group.size()), stage.parts, strict=True):
            part.copy_(theirs)
        self._done(stage, group.rank())


class ReduceScatter(_Exchange):
    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: dist.ProcessGroup, op: Any,
        async_op: bool = False,
    ) -> None:  # fmt: skip
        assert not async_op, "whoever waits does so on a stream"
        size, rank = group.size(), group.rank()
        stage = self._gathered(input_tensor, group)
        total = torch.stack([theirs.chunk(size)[rank] for theirs in stage.parts]).sum(0)
        self._done(stage, rank)
        output_tensor.flatten().copy_(total / size if "AVG" in str(op) else total)


def _shared_stage(mine: torch.Tensor, group: dist.ProcessGroup) -> _Stage:
    own = torch.empty_like(mine.flatten()), *(torch.zeros(1, dtype=torch.int32, device=mine.device) for _ in range(2))
    torch.cuda.synchronize()
    told: list[Any] = [None] * group.size()
    dist.all_gather_object(told, [reduce_tensor(tensor) for tensor in own], group=group)
    members = [own if rank == group.rank() else [make(*args) for make, args in told[rank]] for rank in range(len(told))]
    parts, put, taken = (list(kind) for kind in zip(*members, strict=True))
    return _Stage(parts, put, taken)
