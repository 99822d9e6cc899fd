"""All references by the name of the operator they answer for."""

from penstock.diagnose.operators.kernels.attention import ATTENTION
from penstock.diagnose.operators.kernels.kernel import Kernel
from penstock.diagnose.operators.kernels.losses import LOSSES
from penstock.diagnose.operators.kernels.norms import NORMS
from penstock.diagnose.operators.kernels.pointwise import POINTWISE
from penstock.diagnose.operators.kernels.products import PRODUCTS

KERNELS: dict[str, Kernel] = {**PRODUCTS, **NORMS, **LOSSES, **ATTENTION, **POINTWISE}
COARSE = frozenset({"matmul", "bmm", "linear", "convolution", "attention"})
"""Kinds whose float32 products devices may take of TF32 numbers."""
