"""A wrong call made small: fewer rows and rounder numbers as long as it stays wrong, then a script that repeats it.

Delta debugging over sizes: a size is one number wherever it occurs, in shapes and in arguments, so that tensors keep
fitting each other. What the operator refuses, or gets right, is undone.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from penstock.diagnose.operators.call import Call
from penstock.diagnose.operators.oracle import Judgement, Source, judge


def shrunk(call: Call) -> Call:
    """The smallest call that was found and is still wrong; O(sizes) runs of the operator."""
    for size in sorted({size for tensor in call.tensors() for size in tensor.shape if size > 1}, reverse=True):
        for smaller in _smaller(size):
            tried = _resized(call, size, smaller)
            if _is_wrong(tried):
                call = tried
                break
    rounder = _mapped(call, _rounded)
    return rounder if _is_wrong(rounder) else call


def _smaller(size: int) -> Iterator[int]:
    yield from (each for each in (1, 2, 3, size // 2) if each < size)


def _resized(call: Call, size: int, smaller: int) -> Call:
    def cut(value: Any) -> Any:
        if isinstance(value, Tensor):
            return _cut(value, size, smaller)
        return smaller if type(value) is int and value == size else value

    return replace(call, args=tree_map(cut, call.args), named=tree_map(cut, call.named))


def _cut(tensor: Tensor, size: int, smaller: int) -> Tensor:
    out = tensor
    for axis, length in enumerate(tensor.shape):
        if length == size:
            out = out.narrow(axis, 0, smaller)
    return out.contiguous() if tensor.is_contiguous() else out


def _rounded(tensor: Tensor) -> Tensor:
    return tensor.double().mul(4).round().div(4).to(tensor.dtype) if tensor.is_floating_point() else tensor


def _mapped(call: Call, change: Any) -> Call:
    def changed(value: Any) -> Any:
        return change(value) if isinstance(value, Tensor) else value

    return replace(call, args=tree_map(changed, call.args), named=tree_map(changed, call.named))


def _is_wrong(call: Call) -> bool:
    return judged_again(call).wrong


def judged_again(call: Call) -> Judgement:
    try:
        return judge(call, call.again())
    except (RuntimeError, ValueError, TypeError, IndexError) as problem:
        return Judgement(error=0.0, source=Source.NOBODY, why=str(problem))


def repeating_script(call: Call) -> str:
    """Python that makes the same call and prints what came out beside what should have."""
    seen = judged_again(call)
    wanted = [None if each is None else np.asarray(each).tolist() for each in seen.expected]
    arguments = [_written(value) for value in call.args] + [f"{k}={_written(v)}" for k, v in call.named.items()]
    inner = "".join(f"    {argument},\n" for argument in arguments)
    return (
        f'"""{call.name} is off by {seen.error:.3g} times what rounding allows."""\n\n'
        "import torch\nfrom torch import nan, inf  # noqa: F401\n\n"
        f"found = torch.ops.{call.operator}(\n{inner})\n"
        'print("found   ", found)\n'
        f'print("expected", {wanted})\n'
    )


def _written(value: Any) -> str:
    if isinstance(value, Tensor):
        return _written_tensor(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_written, value))}]"
    return f"torch.{value}" if isinstance(value, torch.memory_format | torch.layout) else _plain(value)


def _plain(value: Any) -> str:
    return f"torch.device({str(value)!r})" if isinstance(value, torch.device) else repr(value)


def _written_tensor(tensor: Tensor) -> str:
    values = tensor.detach().cpu().flatten().tolist()
    made = f"torch.tensor({values}, dtype={tensor.dtype}).reshape({tuple(tensor.shape)})"
    if not tensor.is_contiguous():
        shape, stride = tuple(tensor.shape), tuple(tensor.stride())
        made = f"torch.empty_strided({shape}, {stride}, dtype={tensor.dtype}).copy_({made})"
    return made if tensor.device.type == "cpu" else f"{made}.to({str(tensor.device)!r})"
