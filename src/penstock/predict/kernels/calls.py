"""One kernel-sized piece of work, as it is captured from a model, measured on a device and predicted.

``dims`` means, per family:

=============  ==============================================================================================
gemm           batch, m, n, k: out[b, m, n] = sum_k a[b, m, k] * w[b, k, n]; batch is 1 for a plain product
conv           batch, in_channels, out_channels, height, width, kernel_h, kernel_w, stride, padding, groups
conv_dgrad     the same dims as the forward convolution whose input gradient it computes
conv_wgrad     the same dims as the forward convolution whose weight gradient it computes
attention      batch, heads, queries, keys, head_dim, causal (0 or 1)
attention_bwd  the same
elementwise    elements, inputs (tensors read), outputs (tensors written)
reduction      rows, columns (each row is reduced), neighbours in memory that are all summed up, or all kept
softmax        rows, columns
softmax_bwd    rows, columns
norm           rows, columns (layer, rms and group norm); batch norm: channels, positions, neighbours of one channel
norm_bwd       the same
embedding      rows looked up, columns, rows in the table
embedding_bwd  the same
pool           elements of the output, window
pool_bwd       the same
copy           elements, length of straight stretches, their distance in the source (joined tensors: their number)
optimizer      parameters, tensors
recurrent      steps in time, rows, hidden width, layers, directions
operation      elements, steps one after another: everything else, named by its variant
=============  ==============================================================================================
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.predict.hardware.precision import Precision

__all__ = ["ImageLayout", "KernelCall", "Precision"]


class ImageLayout(StrEnum):
    """How images lie in memory."""

    CHANNELS_FIRST = "nchw"
    CHANNELS_LAST = "nhwc"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCall:
    """A family, its dims, and what follows from them: operations and bytes that must move at least."""

    family: str
    dims: tuple[int, ...]
    precision: Precision
    flops: float
    read_bytes: float
    written_bytes: float
    layout: ImageLayout = ImageLayout.CHANNELS_FIRST
    variant: str = ""
    """What else decides the time inside a family: "add", "gelu", "adamw-fused", "flash", "tn"…"""
