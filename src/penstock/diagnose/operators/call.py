"""One call of PyTorch's operator library: what went in, what came out, what it wrote to."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

from penstock.diagnose.operators.kernels.catalogue import COARSE, KERNELS
from penstock.diagnose.operators.kernels.kernel import Kernel
from penstock.diagnose.operators.tolerance import ROUNDINGS, TF32, Rounding

Results = Sequence[Tensor | None]
"""Tensors of a call, with nothing where it was not asked for one."""
_NEVER_JUDGED = ("empty", "new_empty", "_local_scalar_dense", "lift_fresh", "detach", "set_", "resize", "item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """``args`` and ``named`` as they were before the call; tensors that it writes to are copies."""

    operator: Any
    args: tuple[Any, ...]
    named: dict[str, Any]

    @classmethod
    def before(cls, operator: Any, args: Sequence[Any], named: dict[str, Any]) -> "Call":
        """Keep what the call is about to overwrite."""
        written = {id(tensor) for tensor in _written(operator, args, named)}

        def kept(value: Any) -> Any:
            return value.clone() if isinstance(value, Tensor) and id(value) in written else value

        return cls(operator=operator, args=tree_map(kept, tuple(args)), named=tree_map(kept, dict(named)))

    @property
    def name(self) -> str:
        """Without its overload, and without the underscore of operators that work in place."""
        name = base_name(self.operator)
        return name[:-1] if name.endswith("_") and name[:-1] in KERNELS else name

    @property
    def kernel(self) -> Kernel | None:
        return KERNELS.get(self.name)

    @property
    def kind(self) -> str:
        return self.kernel.kind if self.kernel else self.name

    def tensors(self) -> list[Tensor]:
        return [leaf for leaf in tree_flatten((self.args, self.named))[0] if isinstance(leaf, Tensor)]

    def again(self) -> "Results":
        """Run it once more on the same inputs."""
        copy = Call.before(self.operator, self.args, self.named)
        return copy.results(copy.operator(*copy.args, **copy.named), copy.args, copy.named)

    def results(self, returned: Any, args: Sequence[Any], named: dict[str, Any]) -> "Results":
        """What came out, then tensors that were written to."""
        written = list(_written(self.operator, args, named))
        inside = {id(tensor) for tensor in written}
        leaves = [leaf if isinstance(leaf, Tensor) else None for leaf in tree_flatten(returned)[0]]
        return [leaf for leaf in leaves if id(leaf) not in inside] + written

    def rounding(self, tensor: Tensor) -> Rounding:
        found = ROUNDINGS[str(tensor.dtype).removeprefix("torch.")]
        if self.kind in COARSE and tensor.dtype is torch.float32 and tensor.is_cuda and _takes_tf32(self.kind):
            return found.through(TF32)
        return found


def is_judged(operator: Any) -> bool:
    """Whether a call computes something: not a view, not an allocation, not a draw of random numbers."""
    if operator.namespace != "aten":
        return False
    name, schema = base_name(operator), operator._schema
    if name.startswith(_NEVER_JUDGED) or not schema.returns:
        return False
    if all(each.alias_info is not None and not each.alias_info.is_write for each in schema.returns):
        return False
    return name in KERNELS or torch.Tag.nondeterministic_seeded not in operator.tags


def base_name(operator: Any) -> str:
    return str(operator._schema.name).partition("::")[2]


def _written(operator: Any, args: Sequence[Any], named: dict[str, Any]) -> Iterator[Tensor]:
    kernel = KERNELS.get(base_name(operator))
    hidden = kernel.changes if kernel else ()
    for position, argument in enumerate(operator._schema.arguments):
        declared = argument.alias_info is not None and argument.alias_info.is_write
        if declared or position in hidden:
            value = args[position] if position < len(args) else named.get(argument.name)
            yield from (leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, Tensor))


def as_arrays(tree: Any) -> Any:
    """Tensors as arrays, numbers in float64."""
    return tree_map(lambda value: as_array(value) if isinstance(value, Tensor) else value, tree)


def as_array(tensor: Tensor) -> NDArray[Any]:
    plain = tensor.detach()
    wide = plain.to("cpu", torch.float64, copy=True) if plain.is_floating_point() else plain.to("cpu", copy=True)
    found: NDArray[Any] = wide.contiguous().numpy()
    return found


def mapped(tree: Any, change: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Any:
    """Every array of numbers changed."""
    return tree_map(
        lambda value: change(value) if isinstance(value, np.ndarray) and value.dtype == np.float64 else value, tree
    )


def _takes_tf32(kind: str) -> bool:
    if kind == "convolution":
        return bool(torch.backends.cudnn.allow_tf32)
    return bool(torch.backends.cuda.matmul.allow_tf32)
