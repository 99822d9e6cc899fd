"""The arena: host memory that snapshots are copied into while training goes on, bounded and taken before it is needed.

Tensors that only an attached optimizer changes need not be copied before the next step begins, only before the
optimizer steps: they are copied in the background during the forward and backward pass (the idea is CheckFreq's, FAST
2021). Everything else is copied at once. The memory is used again for every snapshot, since touching fresh pages costs
more than the copy itself.

There are two slots, so one snapshot can be written to the disk while the next is copied. Whoever wants a third waits
until one of them is through, and that is told; a state that does not fit the bound at all is not copied. From a device
with memory to spare a snapshot goes by way of that memory, and from there to the host piece by piece: a device copies
to the host in the order it was told, and whoever asks for a loss meanwhile would wait for everything before it.
"""

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from penstock.core import InputError, format_bytes
from penstock.runtime.checkpoints.device_stage import DeviceStage
from penstock.runtime.checkpoints.layout.chunks import Layout, like, local_part
from penstock.runtime.checkpoints.memory.host_memory import HostBuffer, available_bytes
from penstock.runtime.checkpoints.memory.shards import SLOTS, ShardSlots

_log = logging.getLogger(__name__)
_WORTH_DEFERRING = 1 << 16
"""Bytes below which a copy takes less time than waking the thread that would do it."""
_WORTH_TELLING_S = 1.0
"""Waiting for a slot below this is nothing anybody could do something about."""
_PIECE = 1 << 25
"""Bytes on their way to the host at a time: half a millisecond that a loss may have to wait for."""
_SHARE = 0.5
"""Of the host memory that is available, what an arena may take unless it is told."""


@dataclass(slots=True)
class Slot:
    """One of the arena's places; ``step`` is of the snapshot it holds whole, -1 if none."""

    index: int
    buffer: HostBuffer | None = None
    busy: bool = False
    step: int = -1


@dataclass(slots=True)
class _DeviceCopy:
    """Copies that a device makes: tensors may change behind the event ``taken``; ``staged`` is still to be brought."""

    stream: Any
    taken: Any
    staged: list[tuple[torch.Tensor, torch.Tensor]]
    """On the host, and in memory of the device."""

    def arrive(self) -> None:
        """Return when all is on the host."""
        staged, self.staged = self.staged, []
        with torch.cuda.stream(self.stream):
            under_way = 0
            for held, there in (piece for pair in staged for piece in _pieces(*pair)):
                held.copy_(there, non_blocking=True)
                under_way += held.nbytes
                if under_way >= _PIECE:
                    self.stream.synchronize()
                    under_way = 0
        self.stream.synchronize()


@dataclass(slots=True)
class Copy:
    """A snapshot under way: ``tensors`` are complete once :meth:`finish` is through."""

    tensors: dict[str, torch.Tensor]
    layout: Layout
    slot: Slot
    _late: list[tuple[torch.Tensor, torch.Tensor]]
    _on_device: "_DeviceCopy | None" = None
    _finished: threading.Event = field(default_factory=threading.Event)

    @property
    def bytes(self) -> torch.Tensor:
        """All of it as one stretch."""
        assert self.slot.buffer is not None
        return self.slot.buffer.bytes[: self.layout.bytes]

    def finish(self) -> None:
        """Copy what was left for later; called once, in the background, before anybody reads the copy."""
        try:
            for held, living in self._late:
                held.copy_(living)
            if self._on_device is not None:
                self._on_device.arrive()
        finally:
            self._late = []
            self._finished.set()

    def wait(self) -> None:
        """Return when the living tensors may change. On CUDA the device waits by itself."""
        if self._late:
            self._finished.wait()
        if self._on_device is not None:
            torch.cuda.current_stream().wait_event(self._on_device.taken)


class Arena:
    """The host memory of one worker's snapshots; two at a time, together at most ``limit_bytes``."""

    def __init__(self, limit_bytes: int | None = None, stage: DeviceStage | None = None) -> None:
        self.limit_bytes = limit_bytes if limit_bytes is not None else int(available_bytes() * _SHARE)
        self._slots = [Slot(index) for index in range(SLOTS)]
        self._files: ShardSlots | None = None
        self._layout: tuple[object, Layout] | None = None
        self._freed = threading.Condition()
        self._stage = stage or DeviceStage()
        self._stream: Any = None

    @property
    def outlives_process(self) -> bool:
        """Whether what is in its slots is there for the next process."""
        return self._files is not None

    @property
    def has_room(self) -> bool:
        """Whether a snapshot could begin without waiting."""
        return any(not slot.busy for slot in self._slots)

    def settle_in(self, files: ShardSlots | None) -> None:
        """From now on slots lie in these files, or in memory of the process; what they held is not ours any more."""
        with self._freed:
            self._freed.wait_for(lambda: all(not slot.busy for slot in self._slots))
        for slot in self._slots:
            if slot.buffer is not None:
                slot.buffer.leave()
        self._files, self._layout = files, None
        self._slots = [Slot(index) for index in range(SLOTS)]

    def reserve(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Take the memory for these tensors before it is needed; of a second slot only where it is used in any case."""
        layout = self._layout_of(tensors)
        likely = SLOTS if self._files is not None else 1
        for slot in self._slots[: min(likely, self._affordable(layout))]:
            with self._freed:
                if slot.busy:
                    continue
                slot.busy = True
            try:
                self._prepare(slot, layout, tensors)
            finally:
                self.release(slot)

    def begin(self, tensors: Mapping[str, torch.Tensor], updated: frozenset[str]) -> Copy | None:
        """Copy now what may change at any moment; ``updated`` are the tensors that only an optimizer changes.

        Nothing comes back where the bound leaves no room for such a snapshot.
        """
        layout = self._layout_of(tensors)
        usable = self._affordable(layout)
        if not usable:
            _log.warning(
                "a snapshot of %s does not fit the arena of %s: training waits until it is written",
                format_bytes(layout.bytes), format_bytes(self.limit_bytes),
            )  # fmt: skip
            return None
        slot = self._take(self._slots[:usable])
        try:
            return self._copy(self._prepare(slot, layout, tensors), layout, tensors, updated)
        except BaseException:
            self.release(slot)
            raise

    def release(self, slot: Slot, step: int = -1) -> None:
        """Nobody reads the slot any more; it holds a whole snapshot of ``step`` until it is used again."""
        with self._freed:
            slot.busy, slot.step = False, step
            self._freed.notify_all()

    def _affordable(self, layout: Layout) -> int:
        return min(SLOTS, self.limit_bytes // layout.bytes) if layout.bytes else SLOTS

    def _take(self, slots: list[Slot]) -> Slot:
        """The free slot with the older snapshot, waiting for one if need be."""
        started = time.perf_counter()
        with self._freed:
            self._freed.wait_for(lambda: any(not slot.busy for slot in slots))
            chosen = min((slot for slot in slots if not slot.busy), key=lambda slot: slot.step)
            chosen.busy = True
        waited = time.perf_counter() - started
        if waited >= _WORTH_TELLING_S:
            _log.warning(
                "training waited %.1f s for the arena: both snapshots before this one are still being written. Save "
                "less often, or to a faster place.", waited,
            )  # fmt: skip
        return chosen

    def _prepare(self, slot: Slot, layout: Layout, tensors: Mapping[str, torch.Tensor]) -> Slot:
        slot.step = -1
        if self._files is not None:
            self._files.void(slot.index)
        if slot.buffer is None or slot.buffer.size < layout.bytes:
            if slot.buffer is not None:
                slot.buffer.free()
            pinned = any(tensor.is_cuda for tensor in tensors.values())
            slot.buffer = self._memory(slot.index, layout.bytes, pinned)
        return slot

    def _memory(self, index: int, size: int, pinned: bool) -> HostBuffer:
        try:
            if self._files is not None:
                return self._files.buffer(index, size, pinned=pinned)
        except (InputError, OSError) as refusal:
            self._files = None
            _log.warning("no snapshots stay in memory between checkpoints: %s", refusal)
        return HostBuffer(size, pinned=pinned)

    def _layout_of(self, tensors: Mapping[str, torch.Tensor]) -> Layout:
        """Worked out once: in one world a state has the same tensors at every step but the first."""
        likeness = [(key, tensor.shape, local_part(tensor).shape, tensor.dtype) for key, tensor in tensors.items()]
        if self._layout is None or self._layout[0] != likeness:
            self._layout = likeness, Layout.of(tensors)
        return self._layout[1]

    def _copy(self, slot: Slot, layout: Layout, tensors: Mapping[str, torch.Tensor], updated: frozenset[str]) -> Copy:
        assert slot.buffer is not None
        held = {chunk.key: chunk.view(slot.buffer.bytes) for chunk in layout.chunks}
        living = {key: local_part(tensor) for key, tensor in tensors.items()}
        late = {key for key in updated if not living[key].is_cuda and living[key].nbytes >= _WORTH_DEFERRING}
        for key, tensor in living.items():
            if not tensor.is_cuda and key not in late:
                held[key].copy_(tensor)
        at_once = {key for key, tensor in living.items() if tensor.is_cuda and key not in updated}
        on_device = [key for key, tensor in living.items() if tensor.is_cuda]
        on_device.sort(key=lambda key: key not in at_once)
        device_copy = self._copy_from_device(layout, living, held, on_device, len(at_once)) if on_device else None
        placed = {key: like(tensor, held[key]) for key, tensor in tensors.items()}
        return Copy(placed, layout, slot, [(held[key], living[key]) for key in late], device_copy)

    def _copy_from_device(
        self, layout: Layout, living: dict[str, torch.Tensor], held: dict[str, torch.Tensor], keys: list[str],
        at_once: int,
    ) -> _DeviceCopy:  # fmt: skip
        """Copies on a stream of their own, those that cannot wait in front: training waits for these alone."""
        training, side = torch.cuda.current_stream(), self._side_stream()
        side.wait_stream(training)
        with torch.cuda.stream(side):
            for key in keys[:at_once]:
                held[key].copy_(living[key], non_blocking=True)
            if at_once:
                training.wait_event(side.record_event())
            room = self._stage.room(layout.bytes, living[keys[0]].device) if at_once < len(keys) else None
            staged = {} if room is None else _staged(layout, living, keys[at_once:], room)
            for key in keys[at_once:] if room is None else ():
                held[key].copy_(living[key], non_blocking=True)
            taken = side.record_event()
        return _DeviceCopy(side, taken, [(held[key], there) for key, there in staged.items()])

    def _side_stream(self) -> Any:
        """One for all snapshots: what the allocator keeps for a stream is of use to no other."""
        if self._stream is None:
            self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        return self._stream


def _staged(
    layout: Layout, living: Mapping[str, torch.Tensor], keys: list[str], room: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Copies of these tensors in memory of their own device, placed as they will be on the host."""
    chunks = {chunk.key: chunk for chunk in layout.chunks}
    found = {key: chunks[key].view(room) for key in keys}
    for key, tensor in found.items():
        tensor.copy_(living[key], non_blocking=True)
    return found


def _pieces(held: torch.Tensor, there: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The same places of both, a bounded stretch at a time."""
    numbers = max(_PIECE // held.element_size(), 1)
    return zip(torch.split(held.view(-1), numbers), torch.split(there.view(-1), numbers), strict=True)
