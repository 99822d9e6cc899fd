"""How long does one kernel take? Physics of waves and bandwidth, corrected by what was measured, with error bars."""

from penstock.predict.kernels.calls import ImageLayout, KernelCall, Precision
from penstock.predict.kernels.model import KernelModel, Predictions, kind_of
from penstock.predict.kernels.operations import OperationTable, OperationTime, named
from penstock.predict.kernels.shapes import shape_family

__all__ = [
    "ImageLayout",
    "KernelCall",
    "KernelModel",
    "OperationTable",
    "OperationTime",
    "Precision",
    "Predictions",
    "kind_of",
    "named",
    "shape_family",
]
