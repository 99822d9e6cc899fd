"""Wide residual networks as operator chains, in the shapes Aceso's evaluation uses (EuroSys'24, fp32)."""

from dataclasses import dataclass

from penstock.parallel.families.family import Family
from penstock.parallel.operators import Divides, OpWork, Product, TensorLayout, Volume

IMAGE = 224
CLASSES = 1024
BYTES = 4
SAMPLES = TensorLayout(dp_axis=0)


@dataclass(frozen=True, slots=True)
class _Map:
    """A feature map: channels on a square of pixels."""

    channels: int
    side: int

    @property
    def bytes(self) -> float:
        return float(BYTES * self.channels * self.side * self.side)


def wide_resnet(name: str, *, blocks: tuple[int, int, int, int], base: int, width: int) -> Family:
    """Bottleneck blocks: 1x1 to ``base`` channels, 3x3 to ``base * width``, 1x1 to ``4 * base``, doubling per group."""
    works: list[OpWork] = []
    now = _Map(3, IMAGE)
    now = _convolved(works, "conv1", now, base, kernel=7, stride=2)
    _pointwise(works, "bn1", now, moved=4.0, backward=5.0, parameters=2 * base)
    _pointwise(works, "relu1", now, moved=2.0, backward=3.0)
    now = _pooled(works, "maxpool", now, _Map(base, now.side // 2))
    for group, count in enumerate(blocks):
        planes = base * 2**group
        for block in range(count):
            stride = 2 if group and not block else 1
            now = _block(works, f"block-{group}-{block}", now, planes, width, stride)
    now = _pooled(works, "avgpool", now, _Map(now.channels, 1))
    works.append(_classifier(now))
    return Family(
        name=name, parts=((tuple(works), 1),), tokens=1, element_bytes=BYTES, hidden=base, layers=sum(blocks),
        style="resnet",
    )  # fmt: skip


def _block(works: list[OpWork], name: str, entry: _Map, planes: int, width: int, stride: int) -> _Map:
    """Three convolutions with batch norms beside the shortcut, which is a convolution where the shape changes."""
    now = _convolved(works, f"{name}-conv1", entry, planes, kernel=1, stride=1, starts_layer=True, beside=entry)
    _pointwise(works, f"{name}-bn1", now, moved=6.0, backward=8.0, parameters=2 * planes, beside=entry)
    now = _convolved(works, f"{name}-conv2", now, planes * width, kernel=3, stride=stride, beside=entry)
    _pointwise(works, f"{name}-bn2", now, moved=6.0, backward=8.0, parameters=2 * now.channels, beside=entry)
    now = _convolved(works, f"{name}-conv3", now, planes * 4, kernel=1, stride=1, beside=entry)
    _pointwise(works, f"{name}-bn3", now, moved=4.0, backward=5.0, parameters=2 * now.channels, beside=entry)
    if (entry.channels, entry.side) != (now.channels, now.side):
        works.append(_shortcut(f"{name}-downsample", entry, now))
    _pointwise(works, f"{name}-relu", now, moved=3.0, backward=4.0)
    return now


def _convolved(
    works: list[OpWork], name: str, entry: _Map, channels: int, *, kernel: int, stride: int,
    starts_layer: bool = False, beside: _Map | None = None,
) -> _Map:  # fmt: skip
    """A convolution as the matrix product it is computed as; its output channels are what tensor parallelism cuts."""
    result = _Map(channels, -(-entry.side // stride))
    extra = beside.bytes if beside else 0.0
    works.append(
        OpWork(
            name=name, products=(
                Product(
                    rows=result.side**2, columns=channels, inner=entry.channels * kernel**2, divides=Divides.COLUMNS
                ),
            ),
            parameters=Volume(split=float(entry.channels * kernel**2 * channels)), kept=Volume(entry.bytes),
            received=Volume(entry.bytes + (0.0 if starts_layer else extra)), sent=Volume(extra + result.bytes),
            reduced_forward=result.bytes / 2, reduced_backward=entry.bytes, starts_layer=starts_layer, tunable=True,
            pinned=name == "conv1", layout=(SAMPLES, SAMPLES),
        )
    )  # fmt: skip
    return result


def _shortcut(name: str, entry: _Map, result: _Map) -> OpWork:
    return OpWork(
        name=name, products=(
            Product(rows=result.side**2, columns=result.channels, inner=entry.channels, divides=Divides.COLUMNS),
        ),
        moved_forward=Volume(result.bytes * 2), moved_backward=Volume(result.bytes * 3),
        parameters=Volume(split=float(entry.channels * result.channels)), kept=Volume(entry.bytes + result.bytes),
        received=Volume(entry.bytes + result.bytes), sent=Volume(result.bytes), reduced_forward=result.bytes / 2,
        reduced_backward=entry.bytes, kernels=2, tunable=True, layout=(SAMPLES, SAMPLES),
    )  # fmt: skip


def _pointwise(
    works: list[OpWork], name: str, where: _Map, *, moved: float, backward: float, parameters: int = 0,
    beside: _Map | None = None,
) -> None:  # fmt: skip
    """``moved``: how often the feature map is read or written."""
    extra = beside.bytes if beside else 0.0
    works.append(
        OpWork(
            name=name, moved_forward=Volume(moved * where.bytes), moved_backward=Volume(backward * where.bytes),
            parameters=Volume(float(parameters)), kept=Volume(where.bytes), received=Volume(where.bytes + extra),
            sent=Volume(where.bytes + extra), layout=(SAMPLES, SAMPLES),
        )
    )  # fmt: skip


def _pooled(works: list[OpWork], name: str, entry: _Map, result: _Map) -> _Map:
    works.append(
        OpWork(
            name=name, moved_forward=Volume(entry.bytes + result.bytes), moved_backward=Volume(2 * entry.bytes),
            kept=Volume(result.bytes * 2), received=Volume(entry.bytes), sent=Volume(result.bytes),
            layout=(SAMPLES, SAMPLES),
        )
    )  # fmt: skip
    return result


def _classifier(entry: _Map) -> OpWork:
    return OpWork(
        name="fc", products=(Product(rows=1, columns=CLASSES, inner=entry.channels, divides=Divides.COLUMNS),),
        parameters=Volume(split=float(entry.channels * CLASSES)), kept=Volume(entry.bytes),
        received=Volume(entry.bytes),
        sent=Volume(), reduced_backward=entry.bytes, kernels=3, pinned=True, layout=(SAMPLES, None),
    )  # fmt: skip
