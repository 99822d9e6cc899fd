"""Packed tokens in a few lines: ``data.TokenDataset("corpus", sequence=2048)`` for ``run.steps``, ``data.Mixture`` of
several in given shares, ``data.TokenLoader`` for loops of one's own; ``data.pack`` and ``data.TokenWriter`` make them.

Packing and reading need no PyTorch; ``TokenLoader`` does. See ``docs/data.md``.
"""

from typing import TYPE_CHECKING, Any

from penstock.runtime import (
    DataManifest,
    LoadingStats,
    Mixture,
    Packed,
    TokenBatch,
    TokenDataset,
    TokenWriter,
    TooMuchDamageError,
    open_tokens,
    verify_tokens,
)
from penstock.runtime import (
    pack_text as pack,
)

if TYPE_CHECKING:
    from penstock.runtime import TokenLoader

__all__ = [
    "DataManifest",
    "LoadingStats",
    "Mixture",
    "Packed",
    "TokenBatch",
    "TokenDataset",
    "TokenLoader",
    "TokenWriter",
    "TooMuchDamageError",
    "open_tokens",
    "pack",
    "verify_tokens",
]


def __getattr__(name: str) -> Any:
    """What needs PyTorch is imported when it is asked for."""
    if name != "TokenLoader":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from penstock.core import require

    require("torch", extra="runtime", why="penstock.data.TokenLoader")
    from penstock.runtime import TokenLoader

    return TokenLoader
