"""Operations that networks use beside layers, over sizes and dtypes: what they are given is made first, then they run.

Each entry of :data:`OPERATIONS` yields preparations from small to large, up to a number of elements; gradients run
where people take them.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

Prepared = Callable[[], Callable[[], Any]]
Sizes = Callable[[float], Iterator[Prepared]]

_ROWS = ((64, 64), (1024, 256), (4096, 64), (8192, 1024), (256, 16384), (65536, 128), (32768, 1024), (512, 65536))
_HALF = (torch.float32, torch.bfloat16)


def _over_rows(make: Callable[[int, int, torch.dtype], Callable[[], Any]], dtypes: tuple[torch.dtype, ...]) -> Sizes:
    def sizes(most: float) -> Iterator[Prepared]:
        for (rows, columns), dtype in product(_ROWS, dtypes):
            if rows * columns <= most:
                yield partial(make, rows, columns, dtype)

    return sizes


def _forward(function: Callable[[Tensor], Any], dtypes: tuple[torch.dtype, ...] = _HALF) -> Sizes:
    def make(rows: int, columns: int, dtype: torch.dtype) -> Callable[[], Any]:
        value = torch.randn(rows, columns).to(dtype)
        return lambda: function(value)

    return _over_rows(make, dtypes)


def _backward(function: Callable[[Tensor], Tensor], dtypes: tuple[torch.dtype, ...] = (torch.float32,)) -> Sizes:
    def make(rows: int, columns: int, dtype: torch.dtype) -> Callable[[], Any]:
        value = torch.randn(rows, columns).to(dtype).requires_grad_()
        out = function(value)
        gradient = torch.ones_like(out)
        return lambda: torch.autograd.grad(out, value, gradient, retain_graph=True)

    return _over_rows(make, dtypes)


def _indexed(function: Callable[[Tensor, Tensor, Tensor], Any], dtypes: tuple[torch.dtype, ...] = _HALF) -> Sizes:
    """A table, places of its rows, and as many new rows."""

    def sizes(most: float) -> Iterator[Prepared]:
        tables = (
            (1000, 64, 4000), (20000, 256, 100000), (60000, 128, 600000), (200000, 64, 50000), (4000, 512, 16000),
            (50000, 8, 600000), (1000000, 16, 300000), (60000, 256, 1000000), (300, 32, 200000),
        )  # fmt: skip
        for (table, columns, count), dtype in product(tables, dtypes):
            if count * columns <= most:
                yield partial(make, table, columns, count, dtype)

    def make(table: int, columns: int, count: int, dtype: torch.dtype) -> Callable[[], Any]:
        values, new = torch.randn(table, columns).to(dtype), torch.randn(count, columns).to(dtype)
        places = torch.randint(table, (count,))
        return lambda: function(values, places, new)

    return sizes


def _over_shapes(
    shapes: tuple[tuple[int, ...], ...], function: Callable[[Tensor], Any], dtypes: tuple[torch.dtype, ...]
) -> Sizes:
    def sizes(most: float) -> Iterator[Prepared]:
        for shape, dtype in product(shapes, dtypes):
            if torch.Size(shape).numel() <= most:
                yield partial(make, shape, dtype)

    def make(shape: tuple[int, ...], dtype: torch.dtype) -> Callable[[], Any]:
        value = torch.randn(shape).to(dtype)
        return lambda: function(value)

    return sizes


_BLOCKS = (
    (8, 64, 64), (24, 64, 1024), (1, 4096, 16), (1, 32768, 8), (256, 512, 16), (32, 2048, 64), (4, 512, 8192),
    (512, 16, 512), (1, 512, 1),
)  # fmt: skip
"""Three dimensions, few and many on either side of the middle one."""
_STRIDED = ((8, 64, 64), (32, 512, 512), (64, 197, 768), (16, 8, 256, 64), (128, 256, 14, 14))


def _in_blocks(function: Callable[[Tensor], Any], dtypes: tuple[torch.dtype, ...] = (torch.float32,)) -> Sizes:
    return _over_shapes(_BLOCKS, function, dtypes)


def _strided(function: Callable[[Tensor], Any]) -> Sizes:
    return _over_shapes(_STRIDED, function, _HALF)


def _wide(places: Tensor, new: Tensor) -> Tensor:
    return places[:, None].expand_as(new)


def _bags(backward: bool) -> Sizes:
    def sizes(most: float) -> Iterator[Prepared]:
        shapes = ((1000, 32, 256, 4), (100000, 64, 2048, 4), (100000, 64, 8192, 4), (1000000, 16, 16384, 10))
        for rows, width, bags, each in shapes:
            if rows * width <= most:
                yield partial(make, rows, width, bags, each)

    def make(rows: int, width: int, bags: int, each: int) -> Callable[[], Any]:
        table = nn.EmbeddingBag(rows, width, mode="sum")
        found = torch.randint(rows, (bags, each))
        if not backward:
            return lambda: table(found)
        out = table(found)
        gradient = torch.ones_like(out)
        return lambda: torch.autograd.grad(out, table.weight, gradient, retain_graph=True)

    return sizes


def _matrices(function: Callable[[Tensor], Any]) -> Sizes:
    def sizes(most: float) -> Iterator[Prepared]:
        for batch, side in ((1, 12), (1, 64), (64, 16), (1, 256), (512, 8), (16, 128), (1, 1024)):
            if batch * side * side <= most:
                yield partial(make, batch, side)

    def make(batch: int, side: int) -> Callable[[], Any]:
        half = torch.randn(batch, side, side)
        value = half @ half.transpose(1, 2) + side * torch.eye(side)
        return lambda: function(value)

    return sizes


def _recurrent(kind: Callable[..., nn.Module], backward: bool) -> Sizes:
    def sizes(most: float) -> Iterator[Prepared]:
        shapes = (
            (35, 16, 128, 128, 1, False), (70, 64, 650, 650, 2, False), (128, 32, 256, 512, 2, True),
            (48, 256, 512, 512, 2, True), (32, 128, 1024, 1024, 1, False), (200, 8, 80, 320, 3, True),
            (16, 512, 256, 256, 1, False), (100, 64, 512, 1024, 2, False),
        )  # fmt: skip
        for shape, dtype in product(shapes, (torch.float32, torch.float16)):
            if shape[0] * shape[1] * shape[3] * shape[4] <= most:
                yield partial(make, *shape, dtype)

    def make(
        length: int, batch: int, inward: int, hidden: int, layers: int, both: bool, dtype: torch.dtype
    ) -> Callable[[], Any]:  # fmt: skip
        layer = kind(inward, hidden, layers, bidirectional=both).to(dtype)
        value = torch.randn(length, batch, inward).to(dtype).requires_grad_()
        if not backward:
            return lambda: layer(value)

        def both_ways() -> None:
            layer(value)[0].sum().backward()
            layer.zero_grad()

        return both_ways

    return sizes


def _volumes(grouped: bool) -> Sizes:
    def sizes(most: float) -> Iterator[Prepared]:
        shapes = (
            (2, 1, 24, 64, 64, 3, 1), (2, 24, 24, 64, 64, 3, 1), (2, 48, 48, 32, 32, 3, 1), (4, 96, 96, 16, 16, 3, 1),
            (4, 192, 192, 8, 8, 3, 1), (8, 64, 64, 16, 56, 3, 1), (8, 64, 128, 16, 56, 3, 2), (4, 3, 64, 16, 112, 3, 2),
            (4, 256, 256, 4, 14, 3, 1), (4, 128, 256, 8, 28, 1, 1),
        )  # fmt: skip
        for shape, dtype in product(shapes, (torch.float32, torch.float16, torch.bfloat16)):
            if shape[0] * max(shape[1], shape[2]) * shape[3] * shape[4] ** 2 <= most:
                yield partial(make, *shape, dtype)

    def make(
        batch: int, inward: int, outward: int, deep: int, side: int, window: int, stride: int, dtype: torch.dtype
    ) -> Callable[[], Any]:  # fmt: skip
        groups = inward if grouped else 1
        layer = nn.Conv3d(inward, inward if grouped else outward, window, stride, window // 2, groups=groups).to(dtype)
        value = torch.randn(batch, inward, deep, side, side).to(dtype).requires_grad_()
        return lambda: layer(value).sum().backward()

    return sizes


def _pooled(layer: Callable[[Tensor], Tensor]) -> Sizes:
    def sizes(most: float) -> Iterator[Prepared]:
        for shape in ((2, 24, 64, 64, 64), (4, 96, 16, 32, 32), (16, 64, 8, 56, 56)):
            for dtype in (torch.float32, torch.float16):
                if torch.Size(shape).numel() <= most:
                    yield partial(make, shape, dtype)

    def make(shape: tuple[int, ...], dtype: torch.dtype) -> Callable[[], Any]:
        value = torch.randn(shape).to(dtype).requires_grad_()
        return lambda: layer(value).sum().backward()

    return sizes


def _pictures(function: Callable[[Tensor], Tensor]) -> Sizes:
    def sizes(most: float) -> Iterator[Prepared]:
        for shape in ((8, 64, 32, 32), (16, 256, 16, 16), (32, 64, 128, 128), (8, 21, 64, 64)):
            for dtype in _HALF:
                if torch.Size(shape).numel() <= most:
                    yield partial(make, shape, dtype)

    def make(shape: tuple[int, ...], dtype: torch.dtype) -> Callable[[], Any]:
        value = torch.randn(shape).to(dtype).requires_grad_()
        return lambda: function(value).sum().backward()

    return sizes


def _optimized(build: Callable[[list[Tensor]], Any]) -> Sizes:
    """Steps over lists as long as networks have them."""

    def sizes(most: float) -> Iterator[Prepared]:
        lists: tuple[list[tuple[int, ...]], ...] = (
            [(64,), (64, 64)] * 5, [(512, 512), (512,)] * 30, [(768, 3072), (3072,), (3072, 768), (768,)] * 12,
            [(256, 256, 3, 3), (256,)] * 40, [(1000000, 16)], [(1024, 4096), (1024,)] * 60,
        )  # fmt: skip
        for shapes in lists:
            if sum(torch.Size(shape).numel() for shape in shapes) <= most:
                yield partial(make, shapes)

    def make(shapes: list[tuple[int, ...]]) -> Callable[[], Any]:
        weights = [torch.randn(shape) for shape in shapes]
        for weight in weights:
            weight.grad = torch.randn_like(weight)
        step: Callable[[], Any] = build(weights).step
        return step

    return sizes


def _masked_attention(learned: bool) -> Sizes:
    def sizes(most: float) -> Iterator[Prepared]:
        for shape in ((16, 8, 256, 64), (64, 6, 256, 64), (8, 12, 1024, 64), (32, 4, 200, 64), (128, 2, 100, 64)):
            for dtype in _HALF:
                if torch.Size(shape).numel() <= most:
                    yield partial(make, shape, dtype)

    def make(shape: tuple[int, ...], dtype: torch.dtype) -> Callable[[], Any]:
        batch, heads, length, _ = shape
        query, key, value = (torch.randn(shape).to(dtype).requires_grad_() for _ in range(3))
        mask = torch.zeros(1, heads, length, length).to(dtype).requires_grad_() if learned else None
        if mask is None:
            mask = torch.zeros(batch, 1, 1, length).to(dtype).expand(batch, heads, length, length)
        attend = partial(functional.scaled_dot_product_attention, attn_mask=mask)
        return lambda: attend(query, key, value).sum().backward()

    return sizes


def _ctc(most: float) -> Iterator[Prepared]:
    def make(length: int, batch: int, letters: int, said: int) -> Callable[[], Any]:
        scores = torch.randn(length, batch, letters).log_softmax(-1).requires_grad_()
        text = torch.randint(1, letters, (batch, said))
        lengths = torch.full((batch,), length), torch.full((batch,), said)
        return lambda: functional.ctc_loss(scores, text, *lengths, zero_infinity=True).backward()

    for shape in ((100, 8, 32, 20), (199, 32, 128, 40), (400, 16, 1000, 60)):
        if shape[0] * shape[1] * shape[2] <= most:
            yield partial(make, *shape)


def _cdist(backward: bool) -> Sizes:
    def sizes(most: float) -> Iterator[Prepared]:
        for batch, rows, others, width in (
            (16, 512, 1024, 3),
            (1, 8192, 512, 64),
            (32, 1024, 1024, 64),
            (8, 1024, 1024, 128),
        ):
            if batch * rows * others <= most:
                yield partial(make, batch, rows, others, width)

    def make(batch: int, rows: int, others: int, width: int) -> Callable[[], Any]:
        left, right = torch.randn(batch, rows, width).requires_grad_(), torch.randn(batch, others, width)
        return (lambda: torch.cdist(left, right).sum().backward()) if backward else lambda: torch.cdist(left, right)

    return sizes


def _first(found: Any) -> Tensor:
    return found[0]  # type: ignore[no-any-return]


class _Clipping:
    def __init__(self, weights: list[Tensor]) -> None:
        self.weights = weights

    def step(self) -> None:
        nn.utils.clip_grad_norm_(self.weights, 1.0, foreach=True)


OPERATIONS: dict[str, Sizes] = {
    "cumsum": _forward(lambda v: v.cumsum(-1)),
    "cumsum across": _forward(lambda v: v.cumsum(0)),
    "cumsum in the middle": _in_blocks(lambda v: v.cumsum(1), (torch.float32, torch.int64)),
    "cumprod in the middle": _in_blocks(lambda v: v.cumprod(1)),
    "sort in the middle": _in_blocks(lambda v: v.sort(1)),
    "cumprod": _forward(lambda v: v.cumprod(-1), (torch.float32,)),
    "logcumsumexp": _forward(lambda v: v.logcumsumexp(-1), (torch.float32,)),
    "cummax": _forward(lambda v: v.cummax(-1), (torch.float32,)),
    "flip": _forward(lambda v: v.flip(-1)),
    "topk": _forward(lambda v: v.topk(min(20, v.shape[-1]), -1)),
    "topk of two": _forward(lambda v: v.topk(2, -1)),
    "topk backward": _backward(lambda v: _first(v.topk(20, -1))),
    "sort": _forward(lambda v: v.sort(-1)),
    "sort backward": _backward(lambda v: _first(v.sort(-1))),
    "argsort": _forward(lambda v: v.flatten().argsort(), (torch.float32,)),
    "argmax": _forward(lambda v: v.argmax(-1)),
    "max with places": _forward(lambda v: v.max(-1)),
    "max backward": _backward(lambda v: _first(v.max(-1))),
    "amax backward": _backward(lambda v: v.amax(-1)),
    "logsumexp": _backward(lambda v: v.logsumexp(-1)),
    "std": _forward(lambda v: v.std(-1), (torch.float32,)),
    "tril": _forward(lambda v: v.tril()),
    "one hot": _forward(lambda v: functional.one_hot(v[:, 0].clamp(0, 63).long(), 64), (torch.float32,)),
    "nonzero": _forward(lambda v: (v > 0).nonzero(), (torch.float32,)),
    "masked select": _forward(lambda v: v[v > 0]),
    "masked fill": _forward(lambda v: v.masked_fill(v > 0, 0.0)),
    "where": _forward(lambda v: torch.where(v > 0, v, v * 2)),
    "unique": _forward(lambda v: (100 * v).long().unique(), (torch.float32,)),
    "bincount": _forward(lambda v: torch.bincount((100 * v).long().abs().flatten()), (torch.float32,)),
    "searchsorted": _forward(lambda v: torch.searchsorted(v[0].sort()[0], v), (torch.float32,)),
    "fft": _forward(torch.fft.rfft, (torch.float32,)),
    "fft back": _forward(lambda v: torch.fft.irfft(torch.fft.rfft(v)), (torch.float32,)),
    "fft backward": _backward(lambda v: torch.fft.irfft(torch.fft.rfft(v))),
    "fft in two": _strided(lambda v: torch.fft.irfft2(torch.fft.rfft2(v.float()))),
    "complex product": _forward(lambda v: torch.complex(v, v) * torch.complex(v, v), (torch.float32,)),
    "gather": _indexed(lambda v, i, n: v.gather(0, _wide(i, n))),
    "index select": _indexed(lambda v, i, _: v.index_select(0, i)),
    "index": _indexed(lambda v, i, _: v[i]),
    "index add": _indexed(lambda v, i, n: v.index_add(0, i, n)),
    "index put": _indexed(lambda v, i, n: v.index_put((i,), n)),
    "index put, added": _indexed(lambda v, i, n: v.index_put((i,), n, accumulate=True)),
    "index copy": _indexed(lambda v, i, n: v.index_copy(0, i, n)),
    "scatter": _indexed(lambda v, i, n: v.scatter(0, _wide(i, n), n)),
    "scatter add": _indexed(lambda v, i, n: v.scatter_add(0, _wide(i, n), n)),
    "scatter amax": _indexed(lambda v, i, n: v.scatter_reduce(0, _wide(i, n), n, "amax"), (torch.float32,)),
    "scatter mean": _indexed(lambda v, i, n: v.scatter_reduce(0, _wide(i, n), n, "mean"), (torch.float32,)),
    "gather of numbers": _indexed(lambda v, i, _: v[:, 0].gather(0, i), (torch.float32,)),
    "scatter of numbers": _indexed(lambda v, i, n: v[:, 0].contiguous().scatter_add(0, i, n[:, 0]), (torch.float32,)),
    "embedding bag": _bags(False),
    "embedding bag backward": _bags(True),
    "cholesky": _matrices(torch.linalg.cholesky),
    "qr": _matrices(torch.linalg.qr),
    "solve": _matrices(lambda m: torch.linalg.solve(m, m)),
    "inverse": _matrices(torch.linalg.inv),
    "slogdet": _matrices(torch.linalg.slogdet),
    "svd": _matrices(torch.linalg.svdvals),
    "eigh": _matrices(torch.linalg.eigh),
    "lstm": _recurrent(nn.LSTM, False),
    "lstm trained": _recurrent(nn.LSTM, True),
    "gru": _recurrent(nn.GRU, False),
    "gru trained": _recurrent(nn.GRU, True),
    "rnn trained": _recurrent(nn.RNN, True),
    "conv3d": _volumes(False),
    "conv3d, grouped": _volumes(True),
    "max pool 3d": _pooled(lambda v: functional.max_pool3d(v, 2)),
    "avg pool 3d": _pooled(lambda v: functional.avg_pool3d(v, 2)),
    "adaptive pool 3d": _pooled(lambda v: functional.adaptive_avg_pool3d(v, 1)),
    "max pool 1d": _strided(lambda v: functional.max_pool1d(v.flatten(0, -2)[:, None], 2)),
    "upsample nearest": _pictures(lambda v: functional.interpolate(v, scale_factor=2.0)),
    "upsample bilinear": _pictures(lambda v: functional.interpolate(v, scale_factor=2.0, mode="bilinear")),
    "upsample bilinear by eight": _pictures(
        lambda v: functional.interpolate(v[..., :32, :32], scale_factor=8.0, mode="bilinear")
    ),
    "upsample a pixel": _pictures(lambda v: functional.interpolate(v[..., :1, :1], size=v.shape[2:], mode="bilinear")),
    "upsample bicubic": _pictures(lambda v: functional.interpolate(v, scale_factor=2.0, mode="bicubic")),
    "unfold": _pictures(lambda v: functional.unfold(v[..., :64, :64], 3, padding=1)),
    "pixel shuffle": _pictures(lambda v: functional.pixel_unshuffle(v, 2) if v.shape[-1] % 2 == 0 else v),
    "reflection pad": _pictures(lambda v: functional.pad(v, (1, 1, 1, 1), mode="reflect")),
    "grid sample": _pictures(
        lambda v: functional.grid_sample(v.float(), torch.rand(len(v), 32, 32, 2, device=v.device), align_corners=False)
    ),
    "glu": _pictures(lambda v: functional.glu(v, 1) if v.shape[1] % 2 == 0 else v),
    "group norm": _pictures(lambda v: functional.group_norm(v, 8) if v.shape[1] % 8 == 0 else v),
    "instance norm": _pictures(functional.instance_norm),
    "transposed copy": _strided(lambda v: v.transpose(1, 2).contiguous()),
    "permuted copy": _strided(lambda v: v.movedim(-1, 0).contiguous()),
    "strided sum": _strided(lambda v: v.transpose(1, 2) + v.transpose(1, 2)),
    "strided by flat": _strided(lambda v: v.transpose(1, 2) * torch.ones_like(v).reshape(v.transpose(1, 2).shape)),
    "mixed dtypes": _strided(lambda v: v.float() * v.half() + v),
    "every second": _strided(lambda v: v[..., ::2] * 2.0),
    "repeat": _strided(lambda v: v.repeat(*([1] * (v.dim() - 1)), 2)),
    "repeat interleave": _strided(lambda v: v.repeat_interleave(2, 1)),
    "roll": _strided(lambda v: v.roll(3, 1)),
    "cdist": _cdist(False),
    "cdist backward": _cdist(True),
    "masked attention": _masked_attention(False),
    "attention with a learned bias": _masked_attention(True),
    "ctc": _ctc,
    "adamw": _optimized(lambda w: torch.optim.AdamW(w, foreach=True)),
    "adagrad": _optimized(lambda w: torch.optim.Adagrad(w, foreach=True)),
    "adafactor": _optimized(lambda w: torch.optim.Adafactor(w, foreach=True)),
    "rmsprop": _optimized(lambda w: torch.optim.RMSprop(w, foreach=True)),
    "sgd": _optimized(lambda w: torch.optim.SGD(w, lr=1e-3, foreach=True)),
    "clipping": _optimized(_Clipping),
}
