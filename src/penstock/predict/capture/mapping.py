"""One dispatched aten operation to one :class:`KernelCall`, or none where the device has nothing to do.

The same function reads the operations of a model on the meta device (capture) and of a model that runs (measure), so
what was measured and what is predicted carry the same names by construction. Operations nobody listed here are taken
as elementwise with their own name as variant: they move the bytes they touch.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format

from penstock.predict.kernels.calls import ImageLayout, KernelCall, Precision

Bound = Mapping[str, Any]
"""Arguments of an operation by the names of its schema."""

_LONG = 64
"""Elements from which a stretch of memory is read as fast as all of it."""

_PRECISIONS = {torch.bfloat16: Precision.BF16, torch.float16: Precision.FP16}

_FREE = frozenset([
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view", "lift_fresh",
    "detach", "detach_", "as_strided_", "t_", "squeeze_", "unsqueeze_", "transpose_", "alias", "set_",
    "resize_", "_local_scalar_dense", "_record_function_enter_new", "_record_function_exit", "is_same_size",
    "record_stream",
])  # fmt: skip

_COPIES = {
    "copy_": "copy", "clone": "copy", "_to_copy": "copy", "cat": "cat", "stack": "cat", "zeros": "fill",
    "zero_": "fill", "ones_like": "fill", "zeros_like": "fill", "fill_": "fill", "new_zeros": "fill", "full": "fill",
    "full_like": "fill", "new_ones": "fill", "ones": "fill", "constant_pad_nd": "pad",
}  # fmt: skip

_POINTWISE = frozenset([
    "arange", "bernoulli_", "uniform_", "normal_", "native_dropout", "native_dropout_backward", "hardtanh_backward",
    "mse_loss_backward", "smooth_l1_loss_backward", "huber_loss_backward", "masked_fill", "masked_fill_", "where",
])  # fmt: skip
"""Element by element although PyTorch does not say so of them."""

_REDUCTIONS = frozenset([
    "sum", "mean", "amax", "amin", "max", "min", "var", "var_mean", "std", "norm", "linalg_vector_norm", "any",
    "all", "argmax",
])  # fmt: skip


def call_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any, *, tf32: bool) -> KernelCall | None:
    """What the device does for one operation; ``tf32`` says whether fp32 products may use tensor cores."""
    if is_free(func):
        return None
    name = operation_name(func)
    bound = {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)} | dict(kwargs)
    outputs = [t for t in _tensors([out]) if t.numel()]
    if _on_host(bound, outputs):
        return None
    if name.startswith(("_foreach_", "_fused_")) and "rms_norm" not in name:
        return _optimizer(name, bound)
    if not outputs:
        return None
    reader = _READERS.get(name)
    if reader is not None:
        return reader(name, bound, outputs, tf32)
    if name in _COPIES:
        return _copy(name, bound, outputs, tf32)
    if name in _REDUCTIONS:
        return _reduction(name, bound, outputs, tf32)
    if is_pointwise(func):
        return _elementwise(name, bound, outputs, tf32)
    return _operation(name, bound, outputs, tf32)


def is_free(func: Any) -> bool:
    """Whether an operation only looks at memory otherwise, or hands it out."""
    return func.namespace != "aten" or bool(getattr(func, "is_view", False)) or operation_name(func) in _FREE


@cache
def is_pointwise(func: Any) -> bool:
    """Whether PyTorch says that an operation goes element by element, or says so of what it is the gradient of."""
    name = operation_name(func)
    forward = getattr(torch.ops.aten, name.removesuffix("_backward"), None)
    related = [func, *(getattr(forward, overload) for overload in (forward.overloads() if forward else ()))]
    return name in _POINTWISE or any(torch.Tag.pointwise in each.tags for each in related)


def operation_name(func: Any) -> str:
    return str(func._schema.name).removeprefix("aten::")


def split(args: Sequence[Any], device: str) -> Iterator[tuple[Any, ...]]:
    """The arguments of a convolution's gradients one by one; CPUs compute those of weight and bias together."""
    image, weight, bias = args[-1]
    masks = [[image, False, False], [False, weight, False], [False, False, bias]]
    if device == "cpu":
        masks = [[image, False, False], [False, weight, bias]]
    for mask in masks:
        if any(mask):
            yield (*args[:-1], mask)


def is_split(func: Any) -> bool:
    return str(func) == "aten.convolution_backward.default"


COPY = torch.ops.aten.clone.default


def turned(args: Sequence[Any], device: str) -> torch.memory_format | None:
    """How a convolution's gradient has to lie where it comes in lying otherwise: a GPU then copies it, once for all."""
    gradient, image, weight = args[:3]
    if device == "cpu" or gradient.dim() not in (3, 4):
        return None
    wanted = format_of(image, weight) if gradient.dim() == 4 else torch.contiguous_format
    return None if gradient.is_contiguous(memory_format=wanted) else wanted


_CONTIGUOUS = {
    "native_layer_norm": (0,), "native_layer_norm_backward": (0, 1), "_softmax": (0,), "_log_softmax": (0,),
    "_softmax_backward_data": (0, 1), "_log_softmax_backward_data": (0, 1), "cumsum": (0,), "cumprod": (0,),
    "logcumsumexp": (0,), "embedding_dense_backward": (0,),
}  # fmt: skip


def copied_first(func: Any, args: Sequence[Any]) -> tuple[int, ...]:
    """Which arguments the device copies before the operation itself: its kernel wants them side by side in memory."""
    places = _CONTIGUOUS.get(operation_name(func), ())
    if operation_name(func) == "convolution" and args[0].dim() == 3:
        places = (0,)
    return tuple(place for place in places if not args[place].is_contiguous())


_PUT_BACK = {"select_backward": torch.ops.aten.select.int, "slice_backward": torch.ops.aten.slice.Tensor}
ZEROS, PUT = torch.ops.aten.new_zeros.default, torch.ops.aten.copy_.default


def put_back(func: Any, args: Sequence[Any]) -> Callable[[Tensor], Tensor] | None:
    """Of the gradient of a cut: where in zeros of the whole size it is put. The device does one after the other."""
    view = _PUT_BACK.get(operation_name(func)) if func.namespace == "aten" else None
    return None if view is None else lambda whole: view(whole, *args[2:])


def format_of(image: Tensor, weight: Tensor) -> torch.memory_format:
    """Channels-last if either operand is: the rule of the libraries PyTorch calls."""
    formats = (suggest_memory_format(image), suggest_memory_format(weight))
    return torch.channels_last if torch.channels_last in formats else torch.contiguous_format


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _on_host(bound: Bound, outputs: Sequence[Tensor]) -> bool:
    """Single numbers kept on the host (step counters of optimizers) cost the device nothing."""
    every = [*outputs, *_tensors(bound.values())]
    return all(t.device.type == "cpu" and t.dim() == 0 for t in every)


def footprint(tensor: Tensor) -> int:
    """Bytes behind a tensor: what is broadcast lies in memory once."""
    if tensor.numel() == 0:
        return 0
    return prod(size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride) * tensor.itemsize


def _moved(tensors: Iterable[Tensor]) -> float:
    return float(sum(footprint(tensor) for tensor in tensors))


def _precision(tensor: Tensor, tf32: bool = False) -> Precision:
    return _PRECISIONS.get(tensor.dtype, Precision.TF32 if tf32 else Precision.FP32)


def _channels_last(*tensors: Tensor) -> ImageLayout:
    for tensor in tensors:
        if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last) and not tensor.is_contiguous():
            return ImageLayout.CHANNELS_LAST
    return ImageLayout.CHANNELS_FIRST


def _transposed(tensor: Tensor) -> str:
    return "n" if tensor.stride(-1) == 1 or tensor.shape[-1] == 1 else "t"


_PRODUCTS = {
    "mm": ("self", "mat2"), "bmm": ("self", "mat2"), "addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2"),
    "_addmm_activation": ("mat1", "mat2"), "mv": ("self", "vec"), "dot": ("self", "tensor"),
}  # fmt: skip


def _gemm(name: str, bound: Bound, outputs: Sequence[Tensor], tf32: bool) -> KernelCall:
    left, right = (bound[key] for key in _PRODUCTS[name])
    out = outputs[0]
    batch = out.shape[0] if out.dim() == 3 else 1
    k = left.shape[-1]
    m = out.numel() // batch if right.dim() == 1 else out.shape[-2]
    n = 1 if right.dim() == 1 else out.shape[-1]
    bias = "+bias" if name in ("addmm", "baddbmm", "_addmm_activation") else ""
    return KernelCall(
        family="gemm", dims=(batch, m, n, k), precision=_precision(left, tf32), flops=2.0 * batch * m * n * k,
        read_bytes=_moved(_tensors(bound.values())), written_bytes=_moved(outputs),
        variant=_transposed(left) + _transposed(right) + bias,
    )  # fmt: skip


def _conv_dims(image: Sequence[int], weight: Sequence[int], bound: Bound) -> tuple[int, ...]:
    """Images of one or three dimensions are folded onto two: what counts is how many positions there are."""
    groups, spatial, window = bound["groups"], list(image[2:]), list(weight[2:])
    while len(spatial) < 2:
        spatial, window = [1, *spatial], [1, *window]
    stride, padding = max(bound["stride"]), max(bound["padding"])
    height, kernel_h = prod(spatial[:-1]), prod(window[:-1])
    return (image[0], image[1], weight[0], height, spatial[-1], kernel_h, window[-1], stride, padding, groups)


def _conv_call(
    family: str, image: Tensor | Sequence[int], weight: Tensor, positions: int, bound: Bound, tf32: bool, like: Tensor
) -> KernelCall:
    """``positions`` counts the output's pixels over the batch; the work is the same in all three directions."""
    shape = image.shape if isinstance(image, Tensor) else image
    dims = _conv_dims(shape, weight.shape, bound)
    dilated = max(bound["dilation"]) > 1
    work = 2.0 * positions * weight.numel()
    image_bytes, out_bytes = prod(shape) * like.itemsize, positions * weight.shape[0] * like.itemsize
    parts = {"conv": (image_bytes, out_bytes), "conv_dgrad": (out_bytes, image_bytes)}
    weight_bytes = float(footprint(weight))
    read, written = parts.get(family, (image_bytes + out_bytes, 0))
    biased = family == "conv" and isinstance(bound.get("bias"), Tensor)
    return KernelCall(
        family=family, dims=dims, precision=_precision(like, tf32), flops=work,
        read_bytes=read + (0.0 if family == "conv_wgrad" else weight_bytes),
        written_bytes=written + (weight_bytes if family == "conv_wgrad" else 0.0),
        layout=_channels_last(like, weight), variant="dilated" if dilated else "bias" if biased else "",
    )  # fmt: skip


def _conv(_: str, bound: Bound, outputs: Sequence[Tensor], tf32: bool) -> KernelCall:
    image, weight, out = bound["input"], bound["weight"], outputs[0]
    if bound["transposed"]:
        return _conv_call("conv_dgrad", out.shape, weight, _positions(image), bound, tf32, image)
    return _conv_call("conv", image, weight, _positions(out), bound, tf32, image)


def _conv_backward(_: str, bound: Bound, outputs: Sequence[Tensor], tf32: bool) -> KernelCall:
    gradient, image, weight = bound["grad_output"], bound["input"], bound["weight"]
    to_image, to_weight, _to_bias = bound["output_mask"]
    if not to_image and not to_weight:
        return _reduction("sum", {"self": gradient}, outputs, tf32)
    if bound["transposed"]:
        family = "conv" if to_image else "conv_wgrad"
        return _conv_call(family, gradient.shape, weight, _positions(image), bound, tf32, gradient)
    family = "conv_dgrad" if to_image else "conv_wgrad"
    return _conv_call(family, image, weight, _positions(gradient), bound, tf32, gradient)


def _positions(tensor: Tensor) -> int:
    return tensor.numel() // tensor.shape[1]


def _attention(name: str, bound: Bound, outputs: Sequence[Tensor], tf32: bool) -> KernelCall:
    query, key = bound["query"], bound["key"]
    backward = name.endswith("_backward")
    causal = int(bool(bound.get("is_causal", False)))
    batch, heads, queries, head_dim = query.shape
    keys = key.shape[2]
    flops = 4.0 * batch * heads * queries * keys * head_dim * (0.5 if causal else 1.0) * (2.5 if backward else 1.0)
    kind = next(word for word in ("cpu", "flash", "efficient", "cudnn") if word in name)
    mask = bound.get("attn_bias", bound.get("attn_mask"))
    bias = "+bias" if isinstance(mask, Tensor) and mask.numel() else ""
    one, many = float(query.numel() * query.itemsize), float(key.numel() * key.itemsize)
    sums = 4.0 * batch * heads * queries
    to_bias = footprint(outputs[3]) if backward and bias and len(outputs) > 3 else 0
    written = one + 2 * many + to_bias if backward else one + sums
    read = one + 2 * many + (2 * one + sums if backward else 0.0) + (footprint(mask) if bias else 0.0)
    return KernelCall(
        family="attention_bwd" if backward else "attention", dims=(batch, heads, queries, keys, head_dim, causal),
        precision=_precision(query, tf32), flops=flops, read_bytes=read,
        written_bytes=written, variant=kind + bias + ("+dropout" if bound.get("dropout_p", 0.0) else ""),
    )  # fmt: skip


def _rows_call(
    family: str, variant: str, rows: int, columns: int, bound: Bound, outputs: Sequence[Tensor]
) -> KernelCall:
    like = max(_tensors([*bound.values(), *outputs]), key=lambda t: t.numel())
    return KernelCall(
        family=family, dims=(rows, columns), precision=_precision(like), flops=8.0 * like.numel(),
        read_bytes=_moved(_tensors(bound.values())), written_bytes=_moved(outputs),
        layout=_channels_last(like), variant=variant,
    )  # fmt: skip


def _norm(name: str, bound: Bound, outputs: Sequence[Tensor], _: bool) -> KernelCall:
    backward = "backward" in name
    family = "norm_bwd" if backward else "norm"
    image = bound.get("input", bound.get("self"))
    if image is None:
        image = bound["grad_out"]
    if "batch_norm" in name:
        channels = image.shape[1]
        kind = "batch" if bound.get("training", bound.get("train", True)) else "batch-eval"
        kind += "" if isinstance(bound.get("weight"), Tensor) else "-plain"
        call = _rows_call(family, kind, channels, image.numel() // channels, bound, outputs)
        return replace(call, dims=(*call.dims, _plane(image)))
    if "group_norm" in name:
        rows = image.shape[0] * bound["group"]
        return _rows_call(family, "group", rows, image.numel() // rows, bound, outputs)
    columns = prod(bound["normalized_shape"])
    return _rows_call(family, "rms" if "rms" in name else "layer", image.numel() // columns, columns, bound, outputs)


def _plane(image: Tensor) -> int:
    """Neighbours in memory of one channel: its pixels, or 1 where channels come last."""
    return 1 if _channels_last(image) is ImageLayout.CHANNELS_LAST else prod(image.shape[2:])


def _softmax(name: str, bound: Bound, outputs: Sequence[Tensor], _: bool) -> KernelCall:
    out = outputs[0]
    dim = bound["dim"] % out.dim()
    columns = out.shape[dim]
    inner = prod(out.shape[dim + 1 :]) == 1
    kind = ("log_softmax" if "log" in name else "softmax") + ("" if inner else "/s")
    family = "softmax_bwd" if "backward" in name else "softmax"
    return _rows_call(family, kind, out.numel() // columns, columns, bound, outputs)


def _reduction(name: str, bound: Bound, outputs: Sequence[Tensor], _: bool) -> KernelCall:
    source = next(_tensors(bound.values()))
    rows = outputs[0].numel()
    dims = bound.get("dim")
    given = source.dim() - 1 if dims is None else dims
    axes = [axis % max(source.dim(), 1) for axis in (given if isinstance(given, list | tuple) else [given])]
    columns = max(source.numel() // max(rows, 1), 1)
    direction, run = _direction(source, axes)
    call = _rows_call("reduction", f"{name}/{direction}", rows, columns, bound, outputs)
    return replace(call, dims=(*call.dims, run))


def _direction(source: Tensor, axes: Sequence[int]) -> tuple[str, int]:
    """Along memory ("inner"), across it ("outer"), or both, as a sum over the pixels of every channel ("mixed").

    And how many neighbours in memory share one fate: all are summed up, or all are kept.
    """
    by_stride = sorted((axis for axis in range(source.dim()) if source.shape[axis] > 1), key=source.stride)
    if not by_stride:
        return "inner", 1
    reduced = [axis in axes for axis in by_stride]
    alike = next((place for place, each in enumerate(reduced) if each != reduced[0]), len(reduced))
    run = prod(source.shape[axis] for axis in by_stride[:alike])
    if not reduced[0]:
        return "outer", run
    return ("mixed" if sum(a != b for a, b in pairwise(reduced)) > 1 else "inner"), run


def _loss(name: str, bound: Bound, outputs: Sequence[Tensor], _: bool) -> KernelCall:
    scores = bound["self"]
    classes = scores.shape[1] if scores.dim() > 1 else scores.shape[0]
    rows = scores.numel() // classes
    if "backward" in name:
        return _elementwise(name, {"target": bound["target"]}, outputs, False)
    return KernelCall(
        family="reduction", dims=(1, rows, rows), precision=_precision(scores), flops=float(rows),
        read_bytes=float(rows * (32 + 8)), written_bytes=8.0, variant="nll",
    )  # fmt: skip


def _embedding(name: str, bound: Bound, outputs: Sequence[Tensor], _: bool) -> KernelCall:
    indices, out = bound["indices"], outputs[0]
    columns = out.shape[-1]
    backward = "backward" in name
    table = bound["num_weights"] if backward else bound["weight"].shape[0]
    looked_up = float(indices.numel() * columns * out.itemsize)
    return KernelCall(
        family="embedding_bwd" if backward else "embedding", dims=(indices.numel(), columns, int(table)),
        precision=_precision(out), flops=float(indices.numel() * columns),
        read_bytes=looked_up + footprint(indices), written_bytes=_moved(outputs),
    )  # fmt: skip


def _pool(name: str, bound: Bound, outputs: Sequence[Tensor], _: bool) -> KernelCall:
    backward = "backward" in name
    out = bound["grad_output"] if backward else outputs[0]
    source = bound["self"] if isinstance(bound.get("self"), Tensor) else bound["input"]
    kernel = bound.get("kernel_size")
    window = prod(kernel) ** (2 // len(kernel)) if kernel else max(source.numel() // max(out.numel(), 1), 1)
    return KernelCall(
        family="pool_bwd" if backward else "pool", dims=(out.numel(), window), precision=_precision(out),
        flops=float(out.numel() * window), read_bytes=_moved(_tensors(bound.values())), written_bytes=_moved(outputs),
        layout=_channels_last(source), variant=next(kind for kind in ("max", "adaptive", "avg") if kind in name),
    )  # fmt: skip


def _optimizer(name: str, bound: Bound) -> KernelCall:
    """Operations on lists of tensors: optimizers and gradient clipping."""
    lists = [value for value in bound.values() if isinstance(value, list | tuple) and value]
    first = list(_tensors(lists[0]))
    elements = sum(tensor.numel() for tensor in first)
    fused = name.startswith("_fused")
    written = _moved(_tensors(lists)) if fused else _moved(first)
    return KernelCall(
        family="optimizer", dims=(elements, len(first)), precision=_precision(first[0]),
        flops=(12.0 if fused else 1.0) * elements, read_bytes=_moved(_tensors(lists)),
        written_bytes=written if name.endswith("_") or fused else _moved(first),
        variant=name.strip("_"),
    )  # fmt: skip


def _flat(tensor: Tensor, out: Tensor) -> bool:
    return tensor.shape == out.shape and tensor.stride() == out.stride()


def _repeats_inside(source: Tensor, out: Tensor) -> bool:
    """Whether neighbours in the result read the same element, as pixels of a channel that is scaled."""
    wide = [axis for axis in range(out.dim()) if out.shape[axis] > 1]
    if not wide:
        return False
    axis = min(wide, key=out.stride) - out.dim()
    return source.dim() < -axis or source.shape[axis] == 1 or source.stride(axis) == 0


def _shape_of_access(sources: Sequence[Tensor], out: Tensor) -> str:
    """How the device walks: flat, broadcasting ("/b", along memory "/i"), strided ("/s", in long stretches "/r").

    "/m" where dtypes differ.
    """
    wide = [source for source in sources if source.dim()]
    broadcast = any(source.numel() < out.numel() or 0 in source.stride() for source in wide)
    inside = any(_repeats_inside(source, out) for source in wide)
    strided = [s for s in wide if s.shape == out.shape and not _flat(s, out) and 0 not in s.stride()]
    walk = ("/r" if all(_unbroken(s, out) >= _LONG for s in strided) else "/s") if strided else ""
    mixed = any(source.dtype != out.dtype for source in wide)
    return ("/i" if inside else "/b" if broadcast else "") + walk + ("/m" if mixed else "")


def _elementwise(name: str, bound: Bound, outputs: Sequence[Tensor], _: bool) -> KernelCall:
    sources = list(_tensors(bound.values()))
    out = outputs[0]
    elements = max(t.numel() for t in [*sources, out])
    largest = max([*sources, *outputs], key=lambda t: t.numel() * t.is_floating_point())
    return KernelCall(
        family="elementwise", dims=(elements, len(sources), len(outputs)), precision=_precision(largest),
        flops=float(elements), read_bytes=_moved(sources), written_bytes=_moved(outputs),
        variant=name.strip("_") + _shape_of_access(sources, out),
    )  # fmt: skip


def _operation(name: str, bound: Bound, outputs: Sequence[Tensor], _: bool) -> KernelCall:
    """Whatever has no family of its own: its elements, and along which of them it has to go one after another."""
    sources = list(_tensors(bound.values()))
    elements = max(t.numel() for t in [*sources, *outputs])
    picked = list(_tensors([bound.get("index"), bound.get("indices")]))
    steps, across = _serial(bound.get("dim"), picked, sources[0] if sources else outputs[0])
    added = "+" if bound.get("accumulate") else ""
    whole = "/rows" if any(0 in each.stride() for each in picked) else ""
    largest = max([*sources, *outputs], key=lambda t: t.numel() * t.is_floating_point())
    return KernelCall(
        family="operation", dims=(elements, max(1, steps)), precision=_precision(largest),
        flops=_arithmetic(name, elements, sources, outputs), read_bytes=_moved(sources), written_bytes=_moved(outputs),
        variant=name.strip("_") + added + whole + ("/across" if across else ""),
    )  # fmt: skip


def _serial(dim: Any, picked: Sequence[Tensor], along: Tensor) -> tuple[int, bool]:
    """Steps one after another: rows that are picked by an index, or elements along a dimension; and whether that one
    goes across memory."""
    across = isinstance(dim, int) and along.dim() > 0 and along.stride(dim) != 1
    if picked:
        return max(footprint(each) // each.itemsize for each in picked), across
    if isinstance(dim, int) and along.dim():
        return along.shape[dim], across
    return max(along.shape, default=1), False


def _arithmetic(name: str, elements: int, sources: Sequence[Tensor], outputs: Sequence[Tensor]) -> float:
    """Operations on square matrices take their side times as many as they have elements; gradients of enlarged
    pictures are summed up where they come from, and wait for each other there."""
    along = sources[0] if sources else outputs[0]
    if "linalg" in name and along.dim() > 1 and along.shape[-1] == along.shape[-2]:
        return float(along.numel() * along.shape[-1])
    if name.startswith("upsample") and name.endswith("_backward"):
        return float(along.numel()) ** 2 / max(1, outputs[0].numel())
    return float(elements)


def _unbroken(source: Tensor, out: Tensor) -> int:
    """Elements that lie side by side in source and result alike: how long a copy's straight stretches are."""
    if source.shape != out.shape:
        return 1
    wide = sorted((axis for axis in range(out.dim()) if out.shape[axis] > 1), key=out.stride)
    length = 1
    for axis in wide:
        if out.stride(axis) != length or source.stride(axis) != length:
            break
        length *= out.shape[axis]
    return length


def _pitch(source: Tensor, out: Tensor) -> int:
    """How far apart in the source neighbours of the result lie, in elements."""
    wide = [axis for axis in range(out.dim()) if out.shape[axis] > 1]
    if not wide or source.shape != out.shape:
        return 1
    return max(1, source.stride(min(wide, key=out.stride)))


def _stretch(source: Tensor, dim: int) -> int:
    """Elements of one of several joined tensors that stay together; stacked behind its last dimension, one."""
    if not -source.dim() <= dim < source.dim():
        return 1
    return max(1, source.stride(dim)) * source.shape[dim]


def _walk(kind: str, sources: Sequence[Tensor], out: Tensor, dim: int) -> tuple[int, int]:
    """Length of the straight stretches, and their distance in the source; when joining, the number of tensors."""
    if kind == "cat" and sources:
        return min(_stretch(source, dim) for source in sources), len(sources)
    if kind == "copy" and sources:
        return _unbroken(sources[0], out), _pitch(sources[0], out)
    return out.numel(), 1


def _turned_parts(sources: Sequence[Tensor], out: Tensor) -> str:
    """Parts that lie otherwise than the whole does are joined element by element."""
    wanted = suggest_memory_format(out)
    alike = all(part.is_contiguous(memory_format=wanted if part.dim() == out.dim() else torch.contiguous_format)
                for part in sources)  # fmt: skip
    return "" if alike else "/s"


def _copy(name: str, bound: Bound, outputs: Sequence[Tensor], _: bool) -> KernelCall:
    kind, out = _COPIES[name], outputs[0]
    sources = [] if kind == "fill" else list(_tensors([bound["src"]] if "src" in bound else bound.values()))
    access = _shape_of_access(sources, out) if kind == "copy" else _turned_parts(sources, out) if kind == "cat" else ""
    return KernelCall(
        family="copy", dims=(out.numel(), *_walk(kind, sources, out, bound.get("dim", 0))), precision=_precision(out),
        flops=0.0, read_bytes=_moved(sources), written_bytes=_moved(outputs), layout=_channels_last(out),
        variant=kind + access,
    )  # fmt: skip


Reader = Callable[[str, Bound, Sequence[Tensor], bool], KernelCall]

_SDPA = [f"_scaled_dot_product_{kind}" for kind in
         ("flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu")]  # fmt: skip

_READERS: dict[str, Reader] = {
    **dict.fromkeys(_PRODUCTS, _gemm),
    "convolution": _conv,
    "convolution_backward": _conv_backward,
    **dict.fromkeys([*_SDPA, *(f"{name}_backward" for name in _SDPA)], _attention),
    **dict.fromkeys(
        ["native_batch_norm", "cudnn_batch_norm", "native_layer_norm", "native_group_norm", "_fused_rms_norm",
         "native_batch_norm_backward", "cudnn_batch_norm_backward", "native_layer_norm_backward",
         "native_group_norm_backward", "_fused_rms_norm_backward", "_batch_norm_with_update",
         "batch_norm_backward"],
        _norm,
    ),
    **dict.fromkeys(
        ["_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data"], _softmax
    ),
    **dict.fromkeys(["nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward"], _loss),
    **dict.fromkeys(["embedding", "embedding_dense_backward"], _embedding),
    **dict.fromkeys(
        ["max_pool2d_with_indices", "max_pool2d_with_indices_backward", "avg_pool2d", "avg_pool2d_backward",
         "_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward"],
        _pool,
    ),
}  # fmt: skip
