"""Metrics from raw outputs, computed on the processor while the devices go on with the next shards.

One process for each data set, started when the last of its shards is done, or one for each shard. It finds the outputs
in the folder that ``PENSTOCK_EVALUATION_OUTPUTS`` names and prints its results as any script prints metrics:
``penstock: accuracy=0.71``. It sees no accelerator.
"""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from penstock.core import InputError, metric_values
from penstock.runtime.evaluation.evaluation_files import ShardResult

OUTPUTS, SET, STEP = "PENSTOCK_EVALUATION_OUTPUTS", "PENSTOCK_EVALUATION_SET", "PENSTOCK_CHECKPOINT_STEP"
_PREFIX = "penstock:"
_NICENESS = 5
_SHOWN_LINES = 20
_ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
_NO_DEVICES = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ASCEND_RT_VISIBLE_DEVICES": ""}


class MetricSteps:
    """Runs a command for data sets, some at a time, beside whoever owns this."""

    def __init__(self, command: Sequence[str], step: int, *, at_once: int) -> None:
        self._command = list(command)
        self._step = step
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="metric-step")
        self._started: dict[str, Future[ShardResult]] = {}

    def start(self, name: str, data_set: str, outputs: Path) -> None:
        """Begin a step, called ``name``, with what lies in ``outputs``."""
        self._started[name] = self._pool.submit(self._run, data_set, outputs)

    def finished(self, *, wait: bool = False) -> dict[str, ShardResult]:
        """What is new since the last call; raises for a step that failed."""
        over = [name for name, future in self._started.items() if wait or future.done()]
        return {name: self._started.pop(name).result() for name in over}

    def _run(self, name: str, outputs: Path) -> ShardResult:
        began = time.monotonic()
        env = {**os.environ, **_ALONE, **_NO_DEVICES, OUTPUTS: str(outputs), SET: name, STEP: str(self._step)}
        said, code = _output_of(self._command, env)
        if code:
            tail = "\n".join(said.splitlines()[-_SHOWN_LINES:])
            raise InputError(f"the metric step of {name} ended with code {code}:\n{tail}\n", "code 0")
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
