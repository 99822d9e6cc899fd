"""Recurrent layers as GPUs run them: one call of cuDNN for all steps and layers, one more for the gradients.

The meta device takes them apart into thousands of small steps that no GPU would run.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from penstock.predict.kernels.calls import KernelCall, Precision

RECURRENT = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
"""Gates of each kind."""
Note = Callable[[KernelCall], None]
_LAUNCHES_OF_A_STEP = 4
"""Kernels that cuDNN launches for one step of a recurrent layer: 27 to 39 us of the host on an H200's machine."""
_LOW = {torch.bfloat16: Precision.BF16, torch.float16: Precision.FP16}


def recurrent(name: str, note: Note, *args: Any, **kwargs: Any) -> Any:
    """Arguments as PyTorch's own function takes them, with or without sizes of packed sequences."""
    del kwargs
    packed = isinstance(args[3], list | tuple)
    value, state, weights = (args[0], args[2], args[3]) if packed else args[:3]
    rest = args[4:] if packed else args[3:]
    _bias, layers, _dropout, _train, both = rest[:5]
    first = state[0] if isinstance(state, list | tuple) else state
    batch_first = bool(rest[5]) if not packed and len(rest) > 5 else False
    length, rows = _steps(value, args[1] if packed else None, batch_first)
    call = _call(name, value, weights, length, rows, layers, first.shape[-1], 2 if both else 1)
    out = value.new_empty(*value.shape[:-1], first.shape[-1] * (2 if both else 1))
    shapes = [out, *(torch.empty_like(each) for each in (state if isinstance(state, list | tuple) else [state]))]
    return _Recurrent.apply(note, call, [each.shape for each in shapes], value, *weights)  # type: ignore[no-untyped-call]


def _steps(value: Tensor, sizes: Tensor | None, batch_first: bool) -> tuple[int, int]:
    """Steps in time, and rows of each."""
    if sizes is not None:
        return len(sizes), max(1, value.shape[0] // max(1, len(sizes)))
    if value.dim() == 2:
        return value.shape[0], 1
    return (value.shape[1], value.shape[0]) if batch_first else (value.shape[0], value.shape[1])


def _call(
    name: str, value: Tensor, weights: Sequence[Tensor], length: int, rows: int, layers: int, hidden: int, both: int
) -> KernelCall:
    size = float(value.itemsize)
    parameters = float(sum(weight.numel() for weight in weights))
    low = Precision.TF32 if torch.backends.cudnn.allow_tf32 else Precision.FP32
    gates = RECURRENT[name] * length * rows * hidden * both * layers
    return KernelCall(
        family="recurrent", dims=(length, rows, hidden, layers, both), precision=_LOW.get(value.dtype, low),
        flops=2.0 * length * rows * parameters, read_bytes=size * (value.numel() + parameters),
        written_bytes=size * gates, variant=name,
    )  # fmt: skip


def launches(call: KernelCall) -> int:
    """Kernels that the host has to launch for all steps of all layers."""
    length, _, _, layers, both = call.dims
    return _LAUNCHES_OF_A_STEP * length * layers * both


class _Recurrent(torch.autograd.Function):
    """cuDNN keeps the gates of all steps for the gradients in one reserve."""

    @staticmethod
    def forward(ctx: Any, note: Note, call: KernelCall, shapes: Sequence[Any], value: Tensor, *weights: Tensor) -> Any:
        note(call)
        reserve = value.new_empty(int(call.written_bytes / value.itemsize * 1.25))
        ctx.save_for_backward(value, reserve, *weights)
        ctx.note, ctx.call = note, call
        return tuple(value.new_empty(shape) for shape in shapes)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        value, _, *weights = ctx.saved_tensors
        del gradients
        ctx.note(replace(ctx.call, variant=ctx.call.variant + "_backward", flops=2 * ctx.call.flops))
        return None, None, None, torch.empty_like(value), *(torch.empty_like(weight) for weight in weights)


def lstm_cell(note: Note, value: Tensor, state: Sequence[Tensor], into: Tensor, again: Tensor, *biases: Any) -> Any:
    """Two products, and one kernel for all gates."""
    gates = torch.nn.functional.linear(value, into), torch.nn.functional.linear(state[0], again)
    del biases
    return _Cell.apply(note, *gates, state[1])  # type: ignore[no-untyped-call]


class _Cell(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, note: Note, into: Tensor, _: Tensor, cell: Tensor) -> Any:
        ctx.note, ctx.like = note, (into, cell)
        note(_gates(into, cell, "lstm_cell"))
        return torch.empty_like(cell), torch.empty_like(cell)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        into, cell = ctx.like
        ctx.note(_gates(into, cell, "lstm_cell_backward"))
        gradient = torch.empty_like(into)
        return None, gradient, gradient, torch.empty_like(cell)


def _gates(into: Tensor, cell: Tensor, name: str) -> KernelCall:
    size = float(into.numel() * into.itemsize)
    return KernelCall(
        family="elementwise", dims=(into.numel(), 3, 3), precision=_LOW.get(into.dtype, Precision.FP32),
        flops=8.0 * into.numel(), read_bytes=2 * size + cell.numel() * cell.itemsize,
        written_bytes=size + 2.0 * cell.numel() * cell.itemsize, variant=name,
    )  # fmt: skip
