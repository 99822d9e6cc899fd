"""How long does one kernel take? Physics of waves and bandwidth, corrected by what was measured, with error bars."""

from penstock.estimate.kernels.calls import KernelCall, Layout, Precision
from penstock.estimate.kernels.fitting import MeasuredCall, folds_of
from penstock.estimate.kernels.growing import Growth
from penstock.estimate.kernels.model import KernelModel, Predictions, kind_of
from penstock.estimate.kernels.shapes import shape_family

__all__ = [
    "Growth",
    "KernelCall",
    "KernelModel",
    "Layout",
    "MeasuredCall",
    "Precision",
    "Predictions",
    "folds_of",
    "kind_of",
    "shape_family",
]
