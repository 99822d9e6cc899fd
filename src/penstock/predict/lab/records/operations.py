"""Operations as they ran, kept so that they can be read again: names, shapes, strides and dtypes of all arguments.

Kernel rows say what an operation meant to the version that measured it. These records say what it was: whatever is
learned later about reading an operation holds for everything that was measured before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from penstock.predict.capture.mapping import call_of
from penstock.predict.kernels.calls import KernelCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One dispatched operation; tensors stand as ``{"t": [shape, strides, dtype, device]}`` among its arguments."""

    name: str
    overload: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    out: Any

    @classmethod
    def of(cls, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> "Operation":
        return cls(
            name=str(func._schema.name), overload=str(func._overloadname), args=_frozen(tuple(args)),
            kwargs=tuple((name, _frozen(value)) for name, value in sorted(kwargs.items())), out=_frozen(out),
        )  # fmt: skip

    @property
    def function(self) -> Any:
        namespace, _, name = self.name.partition("::")
        return getattr(getattr(getattr(torch.ops, namespace), name), self.overload)

    def call(self, *, tf32: bool) -> KernelCall | None:
        """What this version takes the operation for."""
        kwargs = {name: _thawed(value) for name, value in self.kwargs}
        return call_of(self.function, _thawed(self.args), kwargs, _thawed(self.out), tf32=tf32)

    def plain(self) -> list[Any]:
        return [self.name, self.overload, _plain(self.args), _plain(self.kwargs), _plain(self.out)]

    @classmethod
    def read(cls, found: Sequence[Any]) -> "Operation":
        name, overload, args, kwargs, out = found
        return cls(name=name, overload=overload, args=_read(args), kwargs=_read(kwargs), out=_read(out))


@dataclass(frozen=True, slots=True)
class _Kept:
    """A tensor without its values."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: str


def _frozen(value: Any) -> Any:
    if isinstance(value, Tensor):
        strides = tuple(value.stride()) if value.layout is torch.strided else ()
        return _Kept(tuple(value.shape), strides, str(value.dtype).removeprefix("torch."), value.device.type)
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _thawed(value: Any) -> Any:
    """Tensors of the device as meta tensors; single numbers of the host stay there."""
    if isinstance(value, _Kept):
        device = "cpu" if value.device == "cpu" and not value.shape else "meta"
        return torch.empty_strided(value.shape, value.strides, dtype=getattr(torch, value.dtype), device=device)
    if isinstance(value, tuple):
        return [_thawed(each) for each in value]
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, _Kept):
        return {"t": [value.shape, value.strides, value.dtype, value.device]}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _read(value: Any) -> Any:
    if isinstance(value, dict):
        shape, strides, dtype, device = value["t"]
        return _Kept(tuple(shape), tuple(strides), dtype, device)
    return tuple(map(_read, value)) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOperation:
    """An operation of one iteration: the median of its device time, how often it ran, and its longest kernel."""

    operation: Operation
    seconds: float
    count: int
    launches: float
    kernel: str

    def plain(self) -> list[Any]:
        return [self.operation.plain(), self.seconds, self.count, self.launches, self.kernel]

    @classmethod
    def read(cls, found: Sequence[Any]) -> "TimedOperation":
        operation, seconds, count, launches, kernel = found
        return cls(operation=Operation.read(operation), seconds=seconds, count=count, launches=launches, kernel=kernel)
