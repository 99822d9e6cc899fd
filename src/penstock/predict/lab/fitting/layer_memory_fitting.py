"""What a fitted model is still off on single layers, kept for when they are asked for again at other batch sizes.

Only what a prediction can tell apart is kept: corrections in steps of a 64th, sizes in quarters of a doubling, and no
layer that the model is right about. That is a file of half the size.
"""

from collections.abc import Sequence

import numpy as np

from penstock.predict.kernels.calls import KernelCall
from penstock.predict.kernels.layer_memory import LayerMemory, layer_keys, log_sizes
from penstock.predict.kernels.tiling import Array

_LARGEST = 0.4
"""No measured row says more than this (as a logarithm): some are outliers."""
_STEPS, _SIZE_STEPS = 64, 4


def remember_layers(calls: Sequence[KernelCall], off: Array) -> LayerMemory:
    """``off``: a row per call, how far the model is off its usual time and its mean, as logarithms."""
    layers = layer_keys(calls)
    steps = np.round(np.clip(off, -_LARGEST, _LARGEST) * _STEPS)
    telling = np.isin(layers, layers[np.any(steps != 0, axis=1)])
    order = np.flatnonzero(telling)[np.argsort(layers[telling], kind="stable")]
    sizes = np.round(log_sizes(calls)[order] * _SIZE_STEPS) / _SIZE_STEPS
    return LayerMemory(
        layers=layers[order], sizes=sizes.astype(np.float16), off=(steps[order] / _STEPS).astype(np.float16)
    )  # fmt: skip
