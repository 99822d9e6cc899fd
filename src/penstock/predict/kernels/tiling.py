"""How a call is cut into blocks of work: the static half of SEER's kernel view, without a profiler.

A kernel is a grid of equal blocks spread over the multiprocessors in waves. The library decides the block's shape; we
list the shapes it could choose (*candidates*: tile sizes and splits of the reduction) and let the physics find the
fastest, as the library's own heuristic tries to. Convolutions are the matrix products they are turned into (implicit
GEMM), with Winograd and direct forms as further candidates where those exist. Everything else streams rows or chunks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from penstock.core import InputError
from penstock.predict.kernels.calls import ImageLayout, KernelCall, Precision

Array = npt.NDArray[np.float64]

MATRIX_FAMILIES = ("gemm", "conv", "conv_dgrad", "conv_wgrad")
ATTENTION_FAMILIES = ("attention", "attention_bwd")
ROW_FAMILIES = ("softmax", "softmax_bwd", "norm", "norm_bwd", "reduction")

TILES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (128, 32), (32, 128), (32, 32))
TILE_CLASS = (0, 0, 1, 2, 2, 3, 4, 4, 5)
"""Tiles of one area share an efficiency."""
WINOGRAD, DIRECT = 6, 7
"""Two more classes: Winograd's products, and kernels that compute with vector units without tiling for reuse."""
CLASSES = 8
SPLITS = (1, 2, 4, 8, 16, 32, 128)
_VECTOR = 8
"""Channels are loaded in vectors of this many: an image of three is padded."""
_ALIGNED_BYTES = 16
_STEP = 32
"""Length of the reduction one step of a matrix block's inner loop covers."""
_WINOGRAD_TILE = 4
_QUERIES_PER_BLOCK = 128
_KEYS_PER_STEP = 64
_ELEMENTS_PER_BLOCK = 4096
_ROW_IN_REGISTERS = 1024
"""Longer rows are walked in strides of this many elements, and read again for every further pass."""
_RESIDENT_ROWS = 4.0
"""Rows that blocks of one unit hold at a time, where the block's size is not known."""
_WARP, _SMALL_BLOCK, _RESIDENT_THREADS = 32.0, 256.0, 2048.0
_ROW_OF_SMALL_BLOCK = 2051
"""A block has the smallest power of two of threads from an eighth of the row on, at most 512: longer rows get 512."""
_LOADED = 4
"""Elements a thread loads at once where a row is aligned for it."""
_WAIT = 15.0
"""How much longer a step that waits for memory takes than one whose loads ran ahead; resident blocks share it."""
_READ_AGAIN = {"softmax": 1.0, "softmax_bwd": 0.67, "norm": 0.5, "norm_bwd": 0.67}
"""Passes beyond the first, as a share of the bytes moved at least (soft-max: maximum and sum, then the output)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledWork:
    """Columns over ``n`` calls of one family; two-dimensional ones have a column per candidate.

    ``shape`` holds the logarithms (base 2) of the numbers that describe a call: what neighbours are found by.
    """

    dram_bytes: Array
    blocks: Array
    block_flops: Array
    block_bytes: Array
    steps: Array
    waits: Array
    """What a block adds to its unit's time by waiting for memory, in steps: none where loads run ahead of their use."""
    held_bytes: Array
    """What the blocks that one unit runs at a time will read again."""
    extra_bytes: Array
    """Through memory besides the operands: partial sums of a split reduction, transformed tiles of Winograd."""
    again_bytes: Array
    """Read more than once: from a cache, if what the blocks in flight hold fits there."""
    staged_bytes: Array
    """Moved before and after: matrix units want channels last, and images that lie otherwise are turned round."""
    misaligned: npt.NDArray[np.bool_]
    """Rows of an operand do not start on 16 bytes: matrix units are then fed by slower loads."""
    tile_class: npt.NDArray[np.int64]
    allowed: npt.NDArray[np.bool_]
    shape: Array

    def __len__(self) -> int:
        return len(self.dram_bytes)

    def rows(self, index: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> "TiledWork":
        """Some of the calls."""
        columns = {each.name: getattr(self, each.name) for each in fields(self)}
        return TiledWork(
            **{name: column if name == "tile_class" else column[index] for name, column in columns.items()}
        )


def is_pointwise(call: KernelCall) -> bool:
    """Whether a convolution is a plain matrix product: a window of one pixel, moved by one."""
    return call.family.startswith("conv") and call.dims[5:8] == (1, 1, 1)


def _is_misaligned(call: KernelCall) -> bool:
    """By the dims of a product that lie contiguously in memory: of "nt", k for both operands and n for the result."""
    if call.family != "gemm" or call.precision == Precision.FP32:
        return False
    _, m, n, k = call.dims
    rows = (m if call.variant.startswith("t") else k, k if call.variant[1:2] == "t" else n, n)
    return any(row * call.precision.bytes % _ALIGNED_BYTES for row in rows)


def work_of(family: str, calls: Sequence[KernelCall]) -> TiledWork:
    """The blocks of calls that are all of one family."""
    dims = dims_of(family, calls)
    moved = np.array([call.read_bytes + call.written_bytes for call in calls], dtype=float)
    flops = np.array([call.flops for call in calls], dtype=float)
    if family in MATRIX_FAMILIES:
        size = np.array([call.precision.bytes for call in calls], dtype=float)
        fp32 = np.array([call.precision == Precision.FP32 for call in calls])
        first = np.array([call.layout == ImageLayout.CHANNELS_FIRST for call in calls])
        pointwise = np.array([is_pointwise(call) for call in calls])
        work = _matrix(family, dims, moved, flops, size, fp32, first & pointwise)
        turned = first & ~fp32 & ~pointwise
        return replace(
            work,
            staged_bytes=2 * moved * (turned & (family != "gemm")),
            misaligned=np.array([_is_misaligned(call) for call in calls], dtype=np.bool_),
        )
    if family in ATTENTION_FAMILIES:
        return _attention(dims, moved, flops)
    if family in ROW_FAMILIES:
        return _rows(family, dims, moved, flops)
    steps = {"optimizer": dims[:, 1], "recurrent": dims[:, 0] * dims[:, -2] * _STEPS_OF_A_CELL}
    elements = dims.prod(axis=1) if family == "recurrent" else dims[:, 0]
    return _stream(elements, dims, moved, flops, steps.get(family, np.ones(len(dims))))


_STEPS_OF_A_CELL = 40.0
"""Serial steps of one time step of a recurrent layer: a product, and the gates."""
_ARITY = {
    "gemm": 4, "conv": 10, "conv_dgrad": 10, "conv_wgrad": 10, "attention": 6, "attention_bwd": 6, "elementwise": 3,
    "reduction": 3, "softmax": 2, "softmax_bwd": 2, "norm": 3, "norm_bwd": 3, "embedding": 3, "embedding_bwd": 3,
    "pool": 2, "pool_bwd": 2, "copy": 3, "optimizer": 2, "operation": 2, "recurrent": 5,
}  # fmt: skip


def dims_of(family: str, calls: Sequence[KernelCall]) -> Array:
    wanted = _ARITY.get(family)
    if wanted is None:
        raise InputError(f"a kernel of family {family!r}", ", ".join(_ARITY))
    found = [_completed(family, call.dims) for call in calls]
    for dims in found:
        if len(dims) != wanted:
            raise InputError(f"a {family} kernel with dims {dims}", f"{wanted} numbers, see KernelCall")
    return np.array(found, dtype=float).reshape(len(calls), wanted)


def _completed(family: str, dims: tuple[int, ...]) -> tuple[int, ...]:
    """Norms over whole rows may leave out how many neighbours a row has in memory: all of it."""
    return (*dims, dims[1]) if family.startswith("norm") and len(dims) == 2 else dims


def matrix_view(family: str, dims: Array, flops: Array) -> tuple[Array, Array, Array, Array]:
    """batch, m, n, k of the matrix product a call is, or is turned into.

    How many pixels a convolution returns follows from its operations: its dims hold one padding for both sides.
    """
    if family == "gemm":
        return dims[:, 0], dims[:, 1], dims[:, 2], dims[:, 3]
    batch, channels_in, channels_out, height, width, kernel_h, kernel_w, stride, _, groups = dims.T
    window = kernel_h * kernel_w
    pixels_out = np.maximum(1.0, np.round(flops / (2 * channels_in * channels_out / groups * window)))
    into, out = np.ceil(channels_in / groups / _VECTOR) * _VECTOR, channels_out / groups
    if family == "conv":
        return groups, pixels_out, out, into * window
    if family == "conv_dgrad":
        return groups, batch * height * width, into, np.maximum(1.0, out * window / stride**2)
    return groups, out, into * window, pixels_out


def out_side(side: Array, kernel: Array, stride: Array, padding: Array) -> Array:
    return np.asarray(np.maximum(1.0, np.floor((side + 2 * padding - kernel) / stride) + 1))


def _matrix(
    family: str,
    dims: Array,
    moved: Array,
    flops: Array,
    size: Array,
    fp32: npt.NDArray[np.bool_],
    by_image: npt.NDArray[np.bool_],
) -> TiledWork:
    batch, m, n, k = matrix_view(family, dims, flops)
    if family in ("conv", "conv_dgrad"):
        images = dims[:, 0]
        batch, m, n = np.where(by_image, (images, n, m / images), (batch, m, n))
    tiles = np.array([(tm, tn, split) for tm, tn in TILES for split in SPLITS], dtype=float)
    tm, tn, split = tiles.T
    depth = np.ceil(k[:, None] / split)
    cells = batch[:, None] * np.ceil(m[:, None] / tm) * np.ceil(n[:, None] / tn)
    parts = np.where(split > 1, split, 0) * (batch * m * n)[:, None] * 4.0
    tiled = TiledWork(
        dram_bytes=moved,
        blocks=cells * split,
        block_flops=2 * tm * tn * np.ceil(depth / 8) * 8,
        block_bytes=(tm + tn) * depth * size[:, None] + tm * tn * size[:, None],
        steps=np.ceil(depth / _STEP),
        waits=np.zeros_like(moved),
        held_bytes=np.zeros_like(moved),
        extra_bytes=2 * parts,
        again_bytes=np.zeros_like(moved),
        staged_bytes=np.zeros_like(moved),
        misaligned=np.zeros(len(moved), dtype=np.bool_),
        tile_class=np.repeat(TILE_CLASS, len(SPLITS)),
        allowed=(split == 1) | (k[:, None] >= 128 * split),
        shape=_log2(np.column_stack([batch, m, n, k, *_conv_columns(family, dims)])),
    )
    return tiled if family == "gemm" else _with_winograd_and_direct(tiled, family, dims, moved, flops, size, fp32)


def _conv_columns(family: str, dims: Array) -> tuple[Array, ...]:
    if family == "gemm":
        return ()
    batch, channels_in, channels_out, height, width, kernel_h, kernel_w, stride, padding, groups = dims.T
    return batch, channels_in, channels_out, height * width, kernel_h * kernel_w, stride, padding + 1, groups


def _with_winograd_and_direct(
    tiled: TiledWork, family: str, dims: Array, moved: Array, flops: Array, size: Array, fp32: npt.NDArray[np.bool_]
) -> TiledWork:
    """Two more candidates. Winograd: 3x3 kernels of stride 1 as 36 small products over 4x4 output tiles, a quarter of
    the work. Direct: grouped convolutions, whose channels are too few to fill a tile."""
    batch, channels_in, channels_out, height, width, kernel_h, kernel_w, stride, padding, groups = dims.T
    fits = (kernel_h == 3) & (kernel_w == 3) & (stride == 1) & (groups == 1) & fp32 & (family != "conv_wgrad")
    high, wide = out_side(height, kernel_h, stride, padding), out_side(width, kernel_w, stride, padding)
    patches = batch * np.ceil(high / _WINOGRAD_TILE) * np.ceil(wide / _WINOGRAD_TILE)
    points = (_WINOGRAD_TILE + 2.0) ** 2
    transformed = points * size * (patches * (channels_in + channels_out) + channels_in * channels_out)
    chunks = np.ceil(batch * channels_out * high * wide / _ELEMENTS_PER_BLOCK)
    more = {
        "blocks": (points * np.ceil(patches / 128) * np.ceil(channels_out / 64), chunks),
        "block_flops": (2 * 128 * 64 * np.ceil(channels_in / 8) * 8, flops / chunks),
        "block_bytes": ((128 + 64) * channels_in * size, moved / chunks),
        "steps": (np.ceil(channels_in / _STEP), np.ceil(kernel_h * kernel_w * channels_in / groups)),
        "extra_bytes": (2 * transformed, 0 * moved),
    }
    columns = {name: np.column_stack([getattr(tiled, name), *added]) for name, added in more.items()}
    return TiledWork(
        dram_bytes=tiled.dram_bytes,
        **columns,
        waits=tiled.waits,
        held_bytes=tiled.held_bytes,
        again_bytes=tiled.again_bytes,
        staged_bytes=tiled.staged_bytes,
        misaligned=tiled.misaligned,
        tile_class=np.append(tiled.tile_class, [WINOGRAD, DIRECT]),
        allowed=np.column_stack([tiled.allowed, fits, groups > 1]),
        shape=tiled.shape,
    )


def _attention(dims: Array, moved: Array, flops: Array) -> TiledWork:
    batch, heads, queries, keys, head_dim, causal = dims.T
    blocks = batch * heads * np.ceil(queries / _QUERIES_PER_BLOCK)
    padded = np.ceil(queries / _QUERIES_PER_BLOCK) * _QUERIES_PER_BLOCK / queries
    steps = np.ceil(keys / _KEYS_PER_STEP) * np.where(causal > 0, 0.5, 1.0)
    return _single(
        moved=moved,
        blocks=blocks,
        block_flops=flops * padded / blocks,
        block_bytes=(queries / np.ceil(queries / _QUERIES_PER_BLOCK) + keys) * head_dim * 4.0,
        steps=np.maximum(1.0, steps),
        shape=_log2(np.column_stack([batch * heads, queries, keys, head_dim, causal + 1])),
        tile_class=1,
    )


def _rows(family: str, dims: Array, moved: Array, flops: Array) -> TiledWork:
    """A block per row, which it reads more than once: from a cache if the rows in flight fit there."""
    rows, columns = np.maximum(dims, 1.0).T[:2]
    long = columns > _ROW_IN_REGISTERS
    padded = np.ceil(columns / _ROW_IN_REGISTERS) * _ROW_IN_REGISTERS / columns
    streamed = _single(
        moved=moved,
        blocks=rows,
        block_flops=flops * np.where(long, padded, 1.0) / rows,
        block_bytes=moved / rows,
        steps=np.ceil(columns / _ROW_IN_REGISTERS),
        held_bytes=_RESIDENT_ROWS * moved / 2 / rows,
        again_bytes=moved * np.where(long, _READ_AGAIN.get(family, 0.0), 0.0),
        shape=_log2(dims),
        tile_class=DIRECT,
    )
    return _as_softmax(streamed, rows, columns, flops) if family.startswith("softmax") else streamed


def _as_softmax(streamed: TiledWork, rows: Array, columns: Array, flops: Array) -> TiledWork:
    """As PyTorch cuts it: a warp keeps a short row in registers, padded to a power of two; threads of a block walk a
    long one together, and wait for memory at every stride."""
    long = columns > _ROW_IN_REGISTERS
    threads = np.where(columns <= _ROW_OF_SMALL_BLOCK, _SMALL_BLOCK, 2.0 * _SMALL_BLOCK)
    padded = 2.0 ** np.ceil(np.log2(columns))
    resident = np.where(long, _RESIDENT_THREADS / threads, _RESIDENT_THREADS / _WARP)
    steps = np.where(long, _strides(columns, threads), padded / _ROW_IN_REGISTERS)
    return replace(
        streamed,
        block_flops=(flops * np.where(long, 1.0, padded / columns) / rows)[:, None],
        steps=steps[:, None],
        waits=_WAIT * steps / resident,
        held_bytes=streamed.dram_bytes / 2 / rows * resident,
    )


def _strides(columns: Array, threads: Array) -> Array:
    """Loads each thread waits for: vectors while whole strides last, then single elements. Rows that do not start on a
    vector's boundary (by their length: three in four, or one in two) take one more to get there."""

    def after(skipped: int) -> Array:
        rest = np.maximum(columns - (threads - skipped), 0.0) if skipped else columns
        vectors, left = np.divmod(rest, _LOADED * threads)
        return np.asarray((skipped > 0) + vectors + np.ceil(left / threads))

    starts = np.array([after(skipped) for skipped in range(_LOADED)])
    by_length = [starts[0], (starts[0] + starts[2]) / 2]
    return np.select([columns % 4 == 0, columns % 2 == 0], by_length, starts.mean(axis=0))


def _stream(elements: Array, dims: Array, moved: Array, flops: Array, steps: Array) -> TiledWork:
    blocks = np.ceil(np.maximum(elements, 1.0) / _ELEMENTS_PER_BLOCK)
    return _single(
        moved=moved,
        blocks=blocks,
        block_flops=flops / blocks,
        block_bytes=moved / blocks,
        steps=steps,
        shape=_log2(dims + 1),
        tile_class=DIRECT,
    )


def _single(
    *, moved: Array, blocks: Array, block_flops: Array, block_bytes: Array, steps: Array, shape: Array,
    tile_class: int, held_bytes: Array | None = None, again_bytes: Array | None = None,
) -> TiledWork:  # fmt: skip
    """Work with one candidate."""
    nothing = np.zeros_like(moved)
    return TiledWork(
        dram_bytes=moved,
        blocks=blocks[:, None],
        block_flops=block_flops[:, None],
        block_bytes=block_bytes[:, None],
        steps=steps[:, None],
        waits=nothing,
        held_bytes=nothing if held_bytes is None else held_bytes,
        extra_bytes=np.zeros((len(moved), 1)),
        again_bytes=nothing if again_bytes is None else again_bytes,
        staged_bytes=nothing,
        misaligned=np.zeros(len(moved), dtype=np.bool_),
        tile_class=np.array([tile_class]),
        allowed=np.ones((len(moved), 1), dtype=np.bool_),
        shape=shape,
    )


def _log2(columns: Array) -> Array:
    return np.log2(np.maximum(columns, 1e-9))
