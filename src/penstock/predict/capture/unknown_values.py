"""Operations whose result depends on values that nobody has computed: how many elements a mask keeps, for example.

Following a model without running it, such a number has to be assumed. What is known of where a tensor comes from is
kept beside it: indices of the best of 8 experts lie in 8 classes, so the mask ``chosen == 3`` keeps an eighth. Whatever
nothing is known of keeps a half. Each of these operations makes the host wait for the device, which is counted too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

_aten = torch.ops.aten
_HALF = 0.5
_FOUND = {"topk": -1, "sort": -1, "argsort": -1, "argmax": None, "argmin": None, "max": None, "min": None}
"""Operations that return places along a dimension, with the dimension they take if none is given."""
_THROUGH = frozenset(
    ["clone", "_to_copy", "copy_", "detach", "cat", "stack", "index_select", "gather", "index", "where"]
)
_MASKED = frozenset(["index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What is known of a tensor's values: how many classes its integers lie in, which share of its booleans is true."""

    classes: int | None = None
    density: float | None = None


class UnknownValues:
    """What is known about tensors of one capture; ``waits`` counts how often the host had to see a value."""

    def __init__(self) -> None:
        self.waits = 0
        self.assumed: dict[str, None] = {}
        self._origins: Any = WeakIdKeyDictionary()

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operation's result, with assumed sizes where it depends on values."""
        name = _name(func)
        if name == "nonzero":
            return self._places(args[0])
        if name == "masked_select":
            kept = args[1].expand(torch.broadcast_shapes(args[0].shape, args[1].shape))  # type: ignore[no-untyped-call]
            return args[0].new_empty(self._kept(kept, args[1]))
        if name == "_local_scalar_dense":
            return self._value(args[0])
        if name == "equal":
            self._assume("two tensors are taken as equal")
            return True
        if name in ("_unique2", "unique_dim", "unique_consecutive"):
            return self._distinct(args[0])
        if name == "bincount":
            return self._counts(args, kwargs)
        if name == "repeat_interleave" and isinstance(args[0], Tensor) and args[0].dtype in (torch.int64, torch.int32):
            return self._repeated(args, kwargs)
        if name in _MASKED:
            args = (args[0], self._indices(args[0], args[1]), *args[2:])
        return func(*args, **kwargs)

    def learn(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> None:
        """What follows for the results of an operation."""
        found = self._origin(_name(func), func, args, kwargs)
        if found is None:
            return
        for tensor in out if isinstance(out, list | tuple) else (out,):
            if isinstance(tensor, Tensor) and not tensor.is_floating_point():
                self._origins[tensor] = found

    def _origin(self, name: str, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Origin | None:
        if name in _FOUND:
            return Origin(classes=_length(args, kwargs, _FOUND[name], after=2 if name == "topk" else 1))
        if name.startswith("randint"):
            high = args[1] if len(args) > 2 and isinstance(args[1], int) else args[0]
            return Origin(classes=high) if isinstance(high, int) else None
        known = [self._origins.get(arg, Origin()) for arg in args if isinstance(arg, Tensor)]
        if not known:
            return Origin(density=float(name == "ones")) if kwargs.get("dtype") is torch.bool else None
        if getattr(func, "is_view", False) or name in _THROUGH:
            return next((origin for origin in known if origin != Origin()), None)
        return _compared(name, args, known)

    def _density(self, mask: Tensor) -> float:
        density = self._origins.get(mask, Origin()).density
        if density is None:
            self._assume("masks whose values nothing is known of are taken to keep a half")
            return _HALF
        return float(density)

    def _kept(self, mask: Tensor, known: Tensor) -> int:
        self.waits += 1
        return max(1, round(mask.numel() * self._density(known)))

    def _places(self, mask: Tensor) -> Tensor:
        return torch.empty((self._kept(mask, mask), mask.dim()), dtype=torch.int64, device=mask.device)

    def _indices(self, source: Tensor, indices: Sequence[Any]) -> list[Any]:
        """Masks as the places they would give; each stands for as many dimensions as it has."""
        del source
        found: list[Any] = []
        for index in indices:
            if isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8):
                places = self._kept(index, index)
                found += [torch.empty(places, dtype=torch.int64, device=index.device) for _ in range(index.dim())]
            else:
                found.append(index)
        return found

    def _value(self, number: Tensor) -> Any:
        if number.device.type != "meta":
            return _aten._local_scalar_dense.default(number)
        self.waits += 1
        if number.dtype is torch.bool:
            self._assume("conditions on a tensor's values are taken as true")
            return True
        if number.is_floating_point():
            self._assume("numbers read from tensors are taken as 1")
            return 1.0
        return _aten._local_scalar_dense.default(number)

    def _distinct(self, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.waits += 1
        self._assume("distinct values are taken to be a half of all, or as many as there are classes")
        classes = self._origins.get(values, Origin()).classes
        count = min(classes or values.numel(), max(1, values.numel() // 2))
        places = torch.empty(values.shape, dtype=torch.int64, device=values.device)
        return values.new_empty(count), places, places.new_empty(count)

    def _counts(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
        self.waits += 1
        least = kwargs.get("minlength", args[2] if len(args) > 2 else 0)
        classes = self._origins.get(args[0], Origin()).classes or args[0].numel()
        return torch.empty(least or classes, dtype=torch.int64, device=args[0].device)

    def _repeated(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
        """How often each row is repeated adds up to something near what it was counted from."""
        size = kwargs.get("output_size")
        if size is None:
            self.waits += 1
            self._assume("rows that are repeated a counted number of times are taken as twice as many")
            size = 2 * args[0].numel()
        return torch.empty(size, dtype=torch.int64, device=args[0].device)

    def _assume(self, what: str) -> None:
        self.assumed[what] = None


def _name(func: Any) -> str:
    return str(func._schema.name).removeprefix("aten::")


def _length(args: Sequence[Any], kwargs: Mapping[str, Any], usual: int | None, after: int) -> int:
    """How many places there are along the dimension an operation goes over; all elements if it names none."""
    dim = kwargs.get("dim", args[after] if len(args) > after and isinstance(args[after], int) else usual)
    source: Tensor = args[0]
    return source.shape[dim] if dim is not None and source.dim() else source.numel()


def _compared(name: str, args: Sequence[Any], known: Sequence[Origin]) -> Origin | None:
    first = known[0]
    if name in ("eq", "ne"):
        classes = first.classes or (known[1].classes if len(known) > 1 else None)
        return Origin(density=1 / classes if name == "eq" else 1 - 1 / classes) if classes else None
    if name in ("lt", "le", "gt", "ge") and first.classes and len(args) > 1 and isinstance(args[1], int | float):
        below = min(1.0, max(0.0, float(args[1]) / first.classes))
        return Origin(density=below if name in ("lt", "le") else 1 - below)
    densities = [origin.density for origin in known if origin.density is not None]
    if not densities:
        return None
    if name in ("logical_not", "bitwise_not"):
        return Origin(density=1 - densities[0])
    if name in ("logical_and", "bitwise_and", "mul"):
        return Origin(density=prod(densities))
    if name in ("logical_or", "bitwise_or"):
        return Origin(density=1 - prod(1 - density for density in densities))
    if name in ("any", "all"):
        return Origin(density=_over_rows(name, densities[0], args))
    return Origin(density=densities[0] / 2) if name in ("tril", "triu") else None


def _over_rows(name: str, density: float, args: Sequence[Any]) -> float:
    """Any or all of a row: as if its elements knew nothing of each other."""
    dim = args[1] if len(args) > 1 and isinstance(args[1], int) else None
    columns = args[0].shape[dim] if dim is not None and args[0].dim() else args[0].numel()
    return float(1 - (1 - density) ** columns if name == "any" else density**columns)
