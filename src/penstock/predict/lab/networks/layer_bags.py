"""Single layers between cheap neighbours, many to a bag: they cover shapes several times as fast as networks do.

A layer in a bag reads what was just written and its result is used at once, as inside a network: it runs between two
rectifiers, forward and backward. Which layers those are is drawn by :mod:`penstock.predict.lab.networks.layers`.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial, reduce
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

from penstock.predict.capture.setup import Setup
from penstock.predict.kernels.calls import ImageLayout, KernelCall
from penstock.predict.lab.networks.layers import Kind, Layer, any_layer
from penstock.predict.lab.networks.random_networks import RandomNetwork
from penstock.predict.lab.records.kernel_rows import KernelRow
from penstock.predict.lab.records.measurements import BAG

_PRECISIONS = {"bf16": 0.44, "tf32": 0.42, "fp16": 0.06, "fp32": 0.08}
_MOST_LAYERS = 160
_LOSSES = 12
"""Of so many sums over everything one is kept: every layer of a bag ends in one."""
MOST_BYTES = 1.6e10


def layer_bag(
    seed: int, most_bytes: float = MOST_BYTES, kinds: Mapping[Kind, float] | None = None
) -> RandomNetwork:  # fmt: skip
    """Bag number ``seed``; small ones too, so that optimizers are seen with few tensors and with many."""
    rng = Random(seed)
    precision = rng.choices(list(_PRECISIONS), list(_PRECISIONS.values()))[0]
    layout = rng.choices([ImageLayout.CHANNELS_FIRST, ImageLayout.CHANNELS_LAST], [0.65, 0.35])[0]
    optimizer = rng.choice(["sgd", "adamw", "adamw-foreach"])
    layers = _within(most_bytes, (any_layer(rng, precision, kinds) for _ in range(rng.randint(8, _MOST_LAYERS))))
    return layer_bag_of(layers, str(seed), Setup(precision=precision, layout=layout, optimizer=optimizer))


def layer_bag_of(layers: Sequence[Layer], name: str, setup: Setup) -> RandomNetwork:
    return RandomNetwork(label=BAG + name, hook=partial(_task, layers), batch=len(layers), setup=setup)


def rows_of_layers(rows: Iterable[KernelRow]) -> list[KernelRow]:
    """Without the neighbours: rectifiers, most of the sums that stand for a loss, and what copies gradients about.

    How long a plain copy takes depends on what lies in the cache, which a bag does not show; joins and margins stay.
    """
    layers = [row for row in rows if _is_layer(row.call)]
    losses = [row for row in layers if row.call.family == "reduction" and row.call.dims[0] == 1]
    return [row for row in layers if row not in losses] + losses[::_LOSSES]


def _is_layer(call: KernelCall) -> bool:
    if call.family == "copy":
        return call.variant in ("cat", "cat/s", "pad")
    return call.family != "elementwise"


def _within(most_bytes: float, layers: Iterable[Layer]) -> list[Layer]:
    kept: list[Layer] = []
    for layer in layers:
        most_bytes -= layer.bytes
        if most_bytes < 0 and kept:
            break
        kept.append(layer)
    return kept


class _Bag(nn.Module):
    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        return [_between(layer, value) for layer, value in zip(self.layers, inputs, strict=True)]


def _between(layer: nn.Module, value: Tensor) -> Tensor:
    ready = value.detach().requires_grad_().relu() if value.is_floating_point() else value
    return layer(ready).relu()  # type: ignore[no-any-return]


def _total(outputs: list[Tensor]) -> Tensor:
    return reduce(torch.add, (output.sum() for output in outputs))


def _task(layers: Sequence[Layer], _: int) -> tuple[nn.Module, tuple[Any, ...], Any]:
    return _Bag([layer.build() for layer in layers]), tuple(layer.example() for layer in layers), _total
