"""How long does one kernel take? Physics of waves and bandwidth, corrected by what was measured, with error bars."""

from penstock.predict.kernels.calls import KernelCall, Layout, Precision
from penstock.predict.kernels.model import KernelModel, Predictions, kind_of
from penstock.predict.kernels.shapes import shape_family
from penstock.predict.lab.boosting import Growth
from penstock.predict.lab.family_fitting import MeasuredCall, folds_of

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
