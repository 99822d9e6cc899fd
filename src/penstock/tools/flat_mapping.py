"""A tree of settings as a table: keys with dots between them, and texts."""

from collections.abc import Mapping
from typing import Any


def flat_texts(tree: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """``{"a": {"b": [1, 2]}}`` as ``{"a.b": "1 2"}``."""
    found: dict[str, str] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            found |= flat_texts(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return found
