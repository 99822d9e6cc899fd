"""Metrics from raw outputs, computed on the processor while the devices go on with the next shards.

One process for each data set, or for each shard. It finds the outputs in the folder that
``PENSTOCK_EVALUATION_OUTPUTS`` names and prints its results as any script prints metrics: ``penstock: accuracy=0.71``.
"""

import os
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from penstock.core import InputError, metric_values
from penstock.runtime.evaluation.evaluation_files import ShardResult

OUTPUTS, SET, STEP = "PENSTOCK_EVALUATION_OUTPUTS", "PENSTOCK_EVALUATION_SET", "PENSTOCK_CHECKPOINT_STEP"
_PREFIX = "penstock:"
_NICENESS = 5
_SHOWN_LINES = 20


class MetricSteps:
    """Runs a command for data sets, some at a time, beside whoever owns this."""

    def __init__(self, command: Sequence[str], step: int, *, at_once: int) -> None:
        self._command = list(command)
        self._step = step
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="metric-step")
        self._started: dict[str, Future[ShardResult]] = {}

    @property
    def under_way(self) -> Collection[str]:
        """Steps that were started and of which nobody has heard yet."""
        return self._started.keys()

    def start(self, name: str, data_set: str, outputs: Path) -> None:
        """Begin a step, called ``name``, with what lies in ``outputs``."""
        self._started[name] = self._pool.submit(self._run, data_set, outputs)

    def over(self) -> dict[str, "Future[ShardResult]"]:
        """What is new since the last call; of a step that failed, asking for the result raises what was wrong."""
        return {name: self._started.pop(name) for name, future in list(self._started.items()) if future.done()}

    def _run(self, name: str, outputs: Path) -> ShardResult:
        began = time.monotonic()
        env = {**os.environ, OUTPUTS: str(outputs), SET: name, STEP: str(self._step)}
        said, code = _output_of(self._command, env)
        if code:
            tail = "\n".join(said.splitlines()[-_SHOWN_LINES:])
            raise InputError(f"the metric step of {name} ended with code {code}", "code 0", f"It said:\n{tail}")
        values = read_metrics(said)
        if not values:
            raise InputError(
                f"the metric step of {name} printed no metric", f"a line such as `{_PREFIX} accuracy=0.71`",
                "Print one for each metric",
            )  # fmt: skip
        return ShardResult(values=values, seconds=time.monotonic() - began)


def _output_of(command: Sequence[str], env: Mapping[str, str]) -> tuple[str, int]:
    """What a program said and how it ended; whoever feeds a device goes before it."""
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
        said, _ = process.communicate()
    return said.decode(errors="replace"), process.returncode


def read_metrics(text: str) -> Mapping[str, float]:
    """The metrics in what a script printed; raises where one is not a number."""
    said: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith(_PREFIX):
            words = (word.partition("=") for word in line.removeprefix(_PREFIX).split())
            named = {name: value for name, equals, value in words if equals and name not in ("step", "total")}
            said |= {metric.name: metric.value for metric in metric_values(named)}
    return said
