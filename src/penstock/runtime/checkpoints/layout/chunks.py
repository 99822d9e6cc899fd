"""Which part of which tensor a worker holds, and where it lies in one stretch of bytes.

A *chunk* is a box of a whole tensor: all of it where state is replicated, some rows where it is sharded, some rows or
columns where tensors are split. Whoever knows the chunks of a world can cut its state for any other world.
"""

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from penstock.runtime.checkpoints.state import TensorSpec
from penstock.runtime.value_codec import dtype_named

ALIGNMENT = 64
"""Chunks begin at multiples of this, so that every type of number and every copy engine is content."""


@dataclass(frozen=True, slots=True)
class Box:
    """A part of a tensor: where it begins and how far it reaches in each dimension."""

    offset: tuple[int, ...]
    extent: tuple[int, ...]

    def meet(self, other: "Box") -> "Box | None":
        """What two boxes have in common."""
        starts = tuple(map(max, self.offset, other.offset))
        mine, theirs = self.stops, other.stops
        extent = tuple(min(a, b) - start for a, b, start in zip(mine, theirs, starts, strict=True))
        return Box(starts, extent) if all(side > 0 for side in extent) else None

    def inside(self, whole: "Box") -> tuple[slice, ...]:
        """How to cut this box out of a tensor that is ``whole``."""
        pairs = zip(self.offset, whole.offset, self.extent, strict=True)
        return tuple(slice(at - base, at - base + side) for at, base, side in pairs)

    @property
    def stops(self) -> tuple[int, ...]:
        return tuple(at + side for at, side in zip(self.offset, self.extent, strict=True))

    @property
    def count(self) -> int:
        return _product(self.extent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A box of the tensor ``key``, whose whole shape is ``shape``; ``start`` is where its bytes begin."""

    key: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    box: Box
    host: bool
    start: int

    @property
    def bytes(self) -> int:
        return self.box.count * self.dtype.itemsize

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec(key=self.key, shape=self.shape, dtype=self.dtype, host=self.host)

    def view(self, buffer: torch.Tensor) -> torch.Tensor:
        """This chunk in a stretch of bytes."""
        return buffer[self.start : self.start + self.bytes].view(self.dtype).view(self.box.extent)

    def to_row(self) -> list[Any]:
        """As commit records have it."""
        dtype = str(self.dtype).removeprefix("torch.")
        return [self.key, dtype, self.shape, self.box.offset, self.box.extent, self.host, self.start]

    @classmethod
    def from_row(cls, row: list[Any]) -> "Chunk":
        """Read one; whatever is none is a ValueError or a TypeError."""
        key, dtype, shape, offset, extent, host, start = row
        whole, box = _sizes(shape), Box(_sizes(offset), _sizes(extent))
        if not len(box.offset) == len(box.extent) == len(whole) or any(map(operator.gt, box.stops, whole)):
            raise ValueError(f"{key!r} has a box that does not lie in its tensor")
        return cls(key=str(key), shape=whole, dtype=dtype_named(dtype), box=box, host=bool(host), start=int(start))


@dataclass(frozen=True, slots=True)
class Layout:
    """The chunks of one worker, one behind the other."""

    chunks: tuple[Chunk, ...]
    bytes: int

    @classmethod
    def of(cls, tensors: Mapping[str, torch.Tensor]) -> "Layout":
        chunks, end = [], 0
        for key, tensor in tensors.items():
            chunk = Chunk(
                key=key, shape=tuple(tensor.shape), dtype=tensor.dtype, box=box_of(tensor),
                host=tensor.device.type == "cpu", start=end,
            )  # fmt: skip
            chunks.append(chunk)
            end += -(-chunk.bytes // ALIGNMENT) * ALIGNMENT
        return cls(tuple(chunks), end)


def box_of(tensor: torch.Tensor) -> Box:
    """The part of the whole tensor that this process holds."""
    if not isinstance(tensor, DTensor):
        return Box((0,) * tensor.dim(), tuple(tensor.shape))
    extent, offset = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    return Box(tuple(offset), tuple(extent))


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """The memory behind a tensor in this process."""
    plain = tensor.detach()
    return plain.to_local() if isinstance(plain, DTensor) else plain


def like(tensor: torch.Tensor, local: torch.Tensor) -> torch.Tensor:
    """A tensor with other memory, placed as the given one is; it may lie in host memory though its mesh does not."""
    if not isinstance(tensor, DTensor):
        return local
    return DTensor(local, tensor._spec, requires_grad=False)  # type: ignore[no-untyped-call]


def _product(sizes: Iterable[int]) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result


def _sizes(values: Iterable[Any]) -> tuple[int, ...]:
    found = tuple(int(value) for value in values)
    if any(value < 0 for value in found):
        raise ValueError(f"{found} has a side below 0")
    return found
