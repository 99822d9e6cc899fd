"""A PyTorch whose operators are wrong: kernels of the dispatcher itself are replaced, so nothing above can know."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch


@contextmanager
def broken_kernel(name: str, function: Callable[..., Any]) -> Iterator[None]:
    """``aten::name`` on the CPU is ``function``, for every caller, until the end."""
    library = torch.library.Library("aten", "IMPL", "CPU")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library.impl(name, function)
        yield
    finally:
        library._destroy()


@contextmanager
def broken_update(kind: type[torch.optim.Optimizer], step: Callable[[torch.optim.Optimizer], None]) -> Iterator[None]:
    with patch.object(kind, "step", step):
        yield
