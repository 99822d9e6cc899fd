"""How long a device stands still in what FSDP2 makes it wait for.

On CUDA a collective runs on a stream of its own, beside computing, so its time says nothing about anybody: it is long
because a peer is late, because there is much to move, or because it began early. What counts is when the *computing*
stream stands still for it. FSDP2 puts that into three methods of a group of parameters: the gathered weights are
waited for, gradients before the last ones, and at the end all gradients. Marks on the computing stream before and
behind each of them are as far apart as the device waited: who is slow waits least.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

WAITING = ("wait_for_unshard", "post_backward", "finalize_backward")
"""Methods of FSDP2's groups of parameters in which the computing stream waits for others."""


def _cuda_mark() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


class DeviceWaits:
    """Adds up the waits of one device; ``mark`` makes what is put on its computing stream."""

    def __init__(self, mark: Callable[[], Any] = _cuda_mark) -> None:
        self._mark = mark
        self._spare: list[Any] = []
        self._pairs: list[tuple[Any, Any]] = []

    def watch(self, group: Any) -> None:
        """From now on, those of a group of parameters; methods that its version does not have are passed over."""
        for name in WAITING:
            if (method := getattr(group, name, None)) is not None:
                setattr(group, name, self._timed(method))

    def clear(self) -> None:
        """What was waited for so far is of no interest."""
        self._spare += [mark for pair in self._pairs for mark in pair]
        self._pairs = []

    def settle(self) -> float:
        """Seconds since this was last asked, now that the device is through with them."""
        waited = sum(began.elapsed_time(ended) for began, ended in self._pairs if ended.query()) / 1000.0
        self.clear()
        return float(waited)

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = self._put()
            try:
                return method(*args, **kwargs)
            finally:
                self._pairs.append((began, self._put()))

        return timed

    def _put(self) -> Any:
        mark = self._spare.pop() if self._spare else self._mark()
        mark.record()
        return mark
