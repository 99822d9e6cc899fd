"""Every operation of one training iteration, seen on the meta device: nothing is computed, nothing is allocated."""

import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format
from torch.utils._python_dispatch import TorchDispatchMode

from penstock.predict.capture.allocator import ALLOCATION, Event
from penstock.predict.capture.mapping import (
    COPY,
    PUT,
    ZEROS,
    call_of,
    copied_first,
    format_of,
    is_free,
    is_split,
    operation_name,
    put_back,
    split,
    turned,
)
from penstock.predict.capture.missing_shapes import MISSING
from penstock.predict.capture.unknown_values import UnknownValues
from penstock.predict.kernels.calls import KernelCall, Precision


class TrainingPhase(StrEnum):
    """Where in an iteration an operation runs."""

    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"


class LiveBytes:
    """Bytes of the storages that are alive, the most there were at once, and how they came and went."""

    def __init__(self) -> None:
        self.now = self.peak = 0
        self.events: list[Event] = []
        self._number = 0
        self._known: dict[int, weakref.ref[Any]] = {}

    def see(self, tensor: Tensor) -> None:
        if tensor.device.type != "meta":
            return
        if tensor.layout is not torch.strided:
            self._see_parts(tensor)
            return
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        size = -(-storage.nbytes() // ALLOCATION) * ALLOCATION
        number = self._number = self._number + 1
        self._known[key] = weakref.ref(storage, lambda _: self._gone(key, size, number))
        if size:
            self.events.append((number, size))
        self.now += size
        self.peak = max(self.peak, self.now)

    def _see_parts(self, tensor: Tensor) -> None:
        """A sparse tensor is as large as what it keeps."""
        if tensor.layout is torch.sparse_coo:
            self.see(tensor._indices())
            self.see(tensor._values())

    def _gone(self, key: int, size: int, number: int) -> None:
        self._known.pop(key, None)
        self.now -= size
        self.events.append((number, 0))


class Counted(NamedTuple):
    """What a recorder had counted at some time."""

    calls: Counter[tuple[KernelCall, TrainingPhase]]
    dispatches: Counter[TrainingPhase]
    views: Counter[TrainingPhase]
    names: Counter[str]
    lists: int
    listed: int


class Recorder(TorchDispatchMode):
    """Counts kernel calls by phase, what the host issues, and live bytes."""

    def __init__(self, device: str, *, tf32: bool, tf32_convolutions: bool | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.phase = TrainingPhase.FORWARD
        self.calls: Counter[tuple[KernelCall, TrainingPhase]] = Counter()
        self.dispatches: Counter[TrainingPhase] = Counter()
        self.views: Counter[TrainingPhase] = Counter()
        """Dispatches that only look at memory otherwise."""
        self.names: Counter[str] = Counter()
        """Dispatches by the name of their operation."""
        self.lists = self.listed = 0
        """Operations of optimizers on lists, and the tensors in those."""
        self.values = UnknownValues()
        self.live = LiveBytes()
        self.device, self._tf32 = device, tf32
        self._tf32_convolutions = tf32 if tf32_convolutions is None else tf32_convolutions

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        unknown = MISSING.get(func)
        made = unknown(*args) if unknown else self.values.run(func, args, kwargs)
        out = _laid_out(func, args, made)
        self.values.learn(func, args, kwargs, out)
        self._count(func, args)
        tf32 = self._tf32_convolutions if "convolution" in str(func) else self._tf32
        for each, part, options, made in _parts(func, args, kwargs, out, self.device):
            self.note(call_of(each, part, options, made, tf32=tf32))
        for tensor in out if isinstance(out, list | tuple) else (out,):
            if isinstance(tensor, Tensor):
                self.live.see(tensor)
        return out

    def _count(self, func: Any, args: tuple[Any, ...]) -> None:
        self.dispatches[self.phase] += 1
        self.views[self.phase] += is_free(func)
        self.names[operation_name(func)] += 1
        if self.phase is TrainingPhase.OPTIMIZER and args and isinstance(args[0], list | tuple):
            self.lists += 1
            self.listed += len(args[0])

    def note(self, call: KernelCall | None) -> None:
        if call is not None:
            self.calls[call, self.phase] += 1

    def counted(self) -> "Counted":
        return Counted(
            Counter(self.calls), Counter(self.dispatches), Counter(self.views), Counter(self.names), self.lists,
            self.listed,
        )  # fmt: skip

    def return_to(self, before: "Counted") -> None:
        """Forget what was counted since."""
        self.calls, self.dispatches = Counter(before.calls), Counter(before.dispatches)
        self.views, self.names = Counter(before.views), Counter(before.names)
        self.lists, self.listed = before.lists, before.listed

    def rms_norm(
        self, input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
    ) -> Tensor:
        """The fused kernel a GPU has for it."""
        del eps
        out: Tensor = _RmsNorm.apply(input, weight, len(normalized_shape), self._note_norm)  # type: ignore[no-untyped-call]
        return out

    def _note_norm(self, family: str, values: Tensor, columns: int) -> None:
        rows, backward = values.numel() // columns, family == "norm_bwd"
        size, gain, sums = float(values.numel() * values.itemsize), float(columns * values.itemsize), 4.0 * rows
        low = {torch.bfloat16: Precision.BF16, torch.float16: Precision.FP16}.get(values.dtype, Precision.FP32)
        self.note(
            KernelCall(
                family=family, dims=(rows, columns), precision=low, flops=8.0 * values.numel(),
                read_bytes=2 * size + sums + gain if backward else size + gain,
                written_bytes=size + (gain if backward else sums), variant="rms",
            )
        )  # fmt: skip


def _laid_out(func: Any, args: tuple[Any, ...], out: Any) -> Any:
    """Results as real devices lay them out: the meta device forgets channels-last in some operations."""
    name = str(func)
    if name in _LIKE_THEIR_GRADIENT and out.dim() == 4:
        return out.contiguous(memory_format=suggest_memory_format(args[0]))
    if name == "aten.native_batch_norm_backward.default" and args[1].dim() == 4 and out[0] is not None:
        return (out[0].contiguous(memory_format=suggest_memory_format(args[1])), *out[1:])
    if name == "aten.convolution.default" and out.dim() == 4:
        return out.contiguous(memory_format=format_of(args[0], args[1]))
    if name == "aten.convolution_backward.default" and args[1].dim() == 4:
        wanted = format_of(args[1], args[2])
        return tuple(made if made is None or made.dim() != 4 else made.contiguous(memory_format=wanted) for made in out)
    return out


_LIKE_THEIR_GRADIENT = frozenset(["aten.hardtanh_backward.default", "aten.hardswish_backward.default"])
"""Their result lies as the gradient that comes in; the meta device takes the layout of the other argument."""


_Part = tuple[Any, tuple[Any, ...], dict[str, Any], Any]


def _parts(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, device: str) -> Iterator[_Part]:
    """An operation as the kernels that make it up: which one, its arguments and its results."""
    place = put_back(func, args)
    if place is not None:
        yield ZEROS, args[:2], {}, out
        yield PUT, (place(out), args[0]), {}, place(out)
        return
    if not is_split(func):
        for position in copied_first(func, args) if device != "cpu" else ():
            copied = args[position].contiguous()
            yield COPY, args[position : position + 1], {}, copied
            args = (*args[:position], copied, *args[position + 1 :])
        yield func, args, kwargs, out
        return
    wanted = turned(args, device)
    if wanted is not None:
        gradient = args[0].contiguous(memory_format=wanted)
        yield COPY, args[:1], {}, gradient
        args = (gradient, *args[1:])
    for part in split(args, device):
        yield func, part, kwargs, [made for made, asked in zip(out, part[-1], strict=True) if asked]


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, values: Tensor, weight: Tensor | None, axes: int, note: Callable[[str, Tensor, int], None]
    ) -> Tensor:
        columns = values.shape[-axes:].numel()
        ctx.save_for_backward(values, weight)
        ctx.columns, ctx.note = columns, note
        note("norm", values, columns)
        return torch.empty_like(values)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> tuple[Any, ...]:
        values, weight = ctx.saved_tensors
        ctx.note("norm_bwd", values, ctx.columns)
        return torch.empty_like(values), None if weight is None else torch.empty_like(weight), None, None
