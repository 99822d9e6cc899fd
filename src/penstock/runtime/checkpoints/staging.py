"""Copies of the state in host memory, taken while training goes on.

Tensors that only an attached optimizer changes need not be copied before the next step begins, only before the
optimizer steps: they are copied in the background during the forward and backward pass (the idea is CheckFreq's, FAST
2021). Everything else is copied at once. The memory is used again for every snapshot, since touching fresh pages costs
more than the copy itself.
"""

import threading
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.distributed.checkpoint.staging import AsyncStager
from torch.distributed.tensor import DTensor

_WORTH_DEFERRING = 1 << 16
"""Bytes below which a copy takes less time than waking the thread that would do it."""


@dataclass(slots=True)
class Copy:
    """A snapshot under way: ``tensors`` are complete once :meth:`finish` is through."""

    tensors: dict[str, torch.Tensor]
    _late: list[tuple[torch.Tensor, torch.Tensor]]
    _on_device: Any = None
    _finished: threading.Event = field(default_factory=threading.Event)

    def finish(self) -> None:
        """Copy what was left for later; called once, in the background."""
        try:
            for held, living in self._late:
                held.copy_(living)
            if self._on_device is not None:
                self._on_device.synchronize()
        finally:
            self._late = []
            self._finished.set()

    def wait(self) -> None:
        """Return when the living tensors may change. On CUDA the device waits by itself."""
        if self._late:
            self._finished.wait()
        if self._on_device is not None:
            torch.cuda.current_stream().wait_event(self._on_device)


class Arena(AsyncStager):
    """The host memory of one run's snapshots; one at a time."""

    _synchronize_after_execute = False

    def __init__(self) -> None:
        self._held: dict[str, torch.Tensor] = {}

    def reserve(self, tensors: dict[str, torch.Tensor]) -> None:
        """Touch the memory for these tensors before it is needed."""
        for key, tensor in tensors.items():
            if key not in self._held and not isinstance(tensor, DTensor):
                self._held[key] = torch.zeros(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)

    def begin(self, tensors: dict[str, torch.Tensor], updated: frozenset[str]) -> Copy:
        """Copy now what may change at any moment; ``updated`` are the tensors that only an optimizer changes."""
        late = {key for key in updated if not tensors[key].is_cuda and tensors[key].nbytes >= _WORTH_DEFERRING}
        held = {key: self._room(key, tensor) for key, tensor in tensors.items()}
        for key, tensor in tensors.items():
            if not tensor.is_cuda and key not in late:
                held[key].copy_(tensor.detach())
        at_once = {key for key, tensor in tensors.items() if tensor.is_cuda and key not in updated}
        on_device = [key for key, tensor in tensors.items() if tensor.is_cuda]
        arrival = self._copy_from_device(tensors, held, sorted(on_device, key=lambda key: key not in at_once), at_once)
        return Copy(held, [(held[key], tensors[key].detach()) for key in late], arrival)

    def stage(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        """The whole state at once; shards are copied into fresh memory."""
        staged = {key: self._copy(key, tensor) for key, tensor in state_dict.items()}
        if torch.cuda.is_available():
            torch.cuda.current_stream().synchronize()
        return staged

    def synchronize_staging(self) -> None:
        """Nothing to wait for: staging returns when the copy is done."""

    def close(self) -> None:
        """The memory stays for the next snapshot."""

    def _copy_from_device(
        self, tensors: dict[str, torch.Tensor], held: dict[str, torch.Tensor], keys: list[str], at_once: set[str]
    ) -> Any:
        """Copies on a stream of their own, those that cannot wait in front: training waits for these alone."""
        if not keys:
            return None
        training, side = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(training)
        with torch.cuda.stream(side):
            for number, key in enumerate(keys):
                if number == len(at_once):
                    training.wait_event(side.record_event())
                held[key].copy_(tensors[key].detach(), non_blocking=True)
            arrival = side.record_event()
        if len(keys) == len(at_once):
            training.wait_event(arrival)
        return arrival

    def _copy(self, key: str, tensor: torch.Tensor) -> torch.Tensor:
        if isinstance(tensor, DTensor):
            return tensor.detach().to("cpu", copy=True)
        return self._room(key, tensor).copy_(tensor.detach(), non_blocking=tensor.is_cuda)

    def _room(self, key: str, tensor: torch.Tensor) -> torch.Tensor:
        held = self._held.get(key)
        if held is None or held.shape != tensor.shape or held.dtype != tensor.dtype:
            held = self._held[key] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
        return held
