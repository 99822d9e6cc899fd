"""Callbacks by name, each loaded when it is asked for: its package is there only for those who use it."""

import importlib
from typing import Any

CALLBACKS = {"HFCallback": "huggingface", "LightningCallback": "lightning"}
"""The callbacks, and the modules of this folder that they are in."""


def callback_class(name: str) -> Any:
    """The callback of this name; raises :class:`AttributeError` for any other."""
    if name not in CALLBACKS:
        raise AttributeError(f"no callback is called {name!r}; there are {', '.join(CALLBACKS)}")
    return getattr(importlib.import_module(f"penstock.runtime.integrations.{CALLBACKS[name]}"), name)
