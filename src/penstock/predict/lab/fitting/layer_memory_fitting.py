"""What a fitted model is still off on single layers, kept for when they are asked for again."""

from collections.abc import Sequence

import numpy as np

from penstock.predict.kernels.calls import KernelCall
from penstock.predict.kernels.layer_memory import OFF_STEPS, LayerMemory, layer_keys, log_sizes
from penstock.predict.kernels.tiling import Array

_LARGEST = 0.4
"""No measured row says more than this (as a logarithm): some are outliers."""


def remember_layers(calls: Sequence[KernelCall], off: Array) -> LayerMemory:
    """``off``: a row per call, how far the model is off its usual time and its mean, as logarithms."""
    layers = layer_keys(calls)
    order = np.argsort(layers, kind="stable")
    steps = np.round(np.clip(off[order], -_LARGEST, _LARGEST) * OFF_STEPS)
    return LayerMemory(
        layers=layers[order], sizes=log_sizes(calls)[order], off=(steps / OFF_STEPS).astype(np.float16)
    )  # fmt: skip
