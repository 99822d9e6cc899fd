"""Metrics of a loop where its author looks for them: a table, an event file of TensorBoard, or a run of MLflow.

A job's metrics are kept by the platform anyway (``elastic.log``). These are for a script that runs by itself, or beside
a tracker that a team has. One worker writes; steps that are done again after a resume replace those in the table.
"""

import csv
import os
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from penstock.core import UnknownNameError, require
from penstock.tools import Scalar, scalar_record, version_record, write_atomically


class MetricWriter(Protocol):
    """Takes the metrics of a step."""

    def write(self, step: int, values: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class CsvWriter:
    """``metrics.csv``: step, name and value, a line for each metric of a step."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "metrics.csv"
        self._began = False

    def write(self, step: int, values: Mapping[str, float]) -> None:
        if not self._began:
            self._began = True
            self._begin_with(step)
        with self.path.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows((step, name, repr(value)) for name, value in values.items())

    def close(self) -> None:
        """Every line is written at once."""

    def _begin_with(self, step: int) -> None:
        """A training that goes on from a checkpoint does some steps again."""
        lines = self.path.read_text().splitlines(keepends=True)[1:] if self.path.exists() else []
        kept = [line for line in lines if int(line.split(",", 1)[0]) < step]
        write_atomically(self.path, "step,metric,value\n" + "".join(kept))


class TensorBoardWriter:
    """``events.out.tfevents.…``, written without TensorBoard; each start of a training has a file of its own."""

    def __init__(self, directory: Path) -> None:
        now = time.time()
        name = f"events.out.tfevents.{now:.0f}.{socket.gethostname()}.{os.getpid()}"
        self._file = (directory / name).open("ab", buffering=0)
        self._file.write(version_record(now))

    def write(self, step: int, values: Mapping[str, float]) -> None:
        now = time.time()
        self._file.write(b"".join(scalar_record(Scalar(name, step, now, value)) for name, value in values.items()))

    def close(self) -> None:
        self._file.close()


class MlflowWriter:
    """A run of MLflow, of the experiment and server that its own variables name (``MLFLOW_TRACKING_URI``…)."""

    def __init__(self, directory: Path) -> None:
        self._mlflow: Any = require("mlflow", extra="tracking", why="metrics to MLflow")
        if "MLFLOW_TRACKING_URI" not in os.environ:
            self._mlflow.set_tracking_uri(f"sqlite:///{directory / 'mlflow.db'}")
        self._mlflow.start_run(run_name=directory.name)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        self._mlflow.log_metrics(dict(values), step=step)

    def close(self) -> None:
        self._mlflow.end_run()


_WRITERS: dict[str, Callable[[Path], MetricWriter]] = {
    "csv": CsvWriter,
    "tensorboard": TensorBoardWriter,
    "mlflow": MlflowWriter,
}


def metric_writer(kind: str, directory: str | Path) -> MetricWriter:
    """``csv``, ``tensorboard`` or ``mlflow``, in a directory that is made."""
    if kind not in _WRITERS:
        raise UnknownNameError.of("kind of metrics", kind, _WRITERS)
    place = Path(directory)
    place.mkdir(parents=True, exist_ok=True)
    return _WRITERS[kind](place)
