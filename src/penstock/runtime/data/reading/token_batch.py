"""Batches of samples."""

from typing import Any, NamedTuple

IGNORED = -100
"""The label that losses of PyTorch pass over."""


class TokenBatch(NamedTuple):
    """Samples in rows: tokens, the token that follows each, and how far into its document each one is.

    ``labels`` are -100 behind the end of a document. ``positions`` begin at 0 with every document in a row, and are
    ``None`` where boundaries are not wanted. Arrays of NumPy, or tensors in a training loop.
    """

    tokens: Any
    labels: Any
    positions: Any
