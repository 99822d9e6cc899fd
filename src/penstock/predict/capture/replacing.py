"""Parts of PyTorch that are other while a model is followed, and as before afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """The same attribute object comes back: static methods stay static."""
    before = vars(owner)[name] if name in vars(owner) else getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
