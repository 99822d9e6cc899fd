"""``torch.utils.checkpoint`` while a model is followed: what is recomputed is recomputed in the same modes.

Autograd starts a backward pass without the modes that functions run in, and asks a model's device, not ours, whether
autocast was on. Both are put back for as long as a part of the model runs again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils import checkpoint

from penstock.predict.capture.replacing import replaced


@contextmanager
def recomputed_alike() -> Iterator[None]:
    """Checkpoints made inside recompute as the forward pass ran."""
    inner: Any = checkpoint._checkpoint_without_reentrant_generator
    backward: Any = checkpoint.CheckpointFunction.backward

    def generator(fn: Any, _: Any, context_fn: Callable[[], tuple[Any, Any]], *args: Any, **kwargs: Any) -> Any:
        around = _around()

        def contexts() -> tuple[Any, Any]:
            forward, again = context_fn()
            return forward, _both(around, again)

        return inner(fn, False, contexts, *args, **kwargs)

    def reentrant(ctx: Any, *gradients: Any) -> Any:
        with modes():
            return backward(ctx, *gradients)

    modes = _around()
    with (
        replaced(checkpoint, "_checkpoint_without_reentrant_generator", generator),
        replaced(checkpoint.CheckpointFunction, "backward", staticmethod(reentrant)),
    ):
        yield


def _around() -> Callable[[], AbstractContextManager[None]]:
    """The modes and the autocast of this moment, to be entered later."""
    stack = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    low = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None
    return lambda: _entered(stack, low)


@contextmanager
def _entered(modes: Sequence[TorchFunctionMode], low: torch.dtype | None) -> Iterator[None]:
    missing = modes[len(_get_current_function_mode_stack()) :]  # type: ignore[no-untyped-call]
    with ExitStack() as stack:
        for mode in missing:
            stack.enter_context(mode)
        if low is not None:
            stack.enter_context(torch.autocast("cuda", dtype=low))
        yield


@contextmanager
def _both(around: Callable[[], AbstractContextManager[None]], again: AbstractContextManager[Any]) -> Iterator[None]:
    with around(), again:
        yield
