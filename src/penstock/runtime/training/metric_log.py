"""``elastic.log``: metrics of a script, whether or not it trains with the library's own loop.

In a process that called ``elastic.init`` they go over the line to the agent. In any other worker of a run they are
printed as a line of output that the agent reads. In a process that no run started they go nowhere.
"""

import os
import sys
from collections.abc import Mapping
from typing import Any, Protocol

from penstock.core import metric_values


class MetricLog(Protocol):
    """What has metrics of its own to keep: an elastic run."""

    def log(self, values: Mapping[str, Any] | None = None, /, *, step: int | None = None, **named: Any) -> None: ...


class PrintedMetricLog:
    """Lines of output, of a worker that the platform started and that is the first of its world."""

    def log(self, values: Mapping[str, Any] | None = None, /, *, step: int | None = None, **named: Any) -> None:
        logged = metric_values({**(values or {}), **named}, step)
        if logged and os.environ.get("PENSTOCK_AGENT") and os.environ.get("RANK", "0") == "0":
            counted = [] if step is None else [f"step={step}"]
            words = [*counted, *(f"{metric.name}={metric.value!r}" for metric in logged)]
            sys.stdout.write(f"penstock: {' '.join(words)}\n")
            sys.stdout.flush()


_PRINTED = PrintedMetricLog()
_used: MetricLog = _PRINTED


def log_with(metric_log: MetricLog) -> None:
    """Let :func:`log` write there."""
    global _used  # noqa: PLW0603
    _used = metric_log


def log_no_more_with(metric_log: MetricLog) -> None:
    """What :func:`log` wrote to is closed; from now on it prints."""
    if _used is metric_log:
        log_with(_PRINTED)


def log(values: Mapping[str, Any] | None = None, /, *, step: int | None = None, **named: Any) -> None:
    """Log metrics of this training: ``elastic.log(val_acc=0.91)``, ``elastic.log({"eval/loss": 0.3}, step=120)``.

    Values are numbers or tensors of one element; NaN and infinities are kept and named. Without a step they are of the
    step that training has reached. Of several workers only the first one's count.
    """
    _used.log(values, step=step, **named)
