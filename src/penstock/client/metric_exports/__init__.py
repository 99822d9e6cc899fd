"""Metrics of a job in the formats of the trackers that people have: nothing of theirs needs to be installed."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from penstock.client.metric_exports.csv_file import write_csv
from penstock.client.metric_exports.mlflow_store import write_mlflow
from penstock.client.metric_exports.tensorboard_log import write_tensorboard
from penstock.client.metric_exports.wandb_log import write_wandb
from penstock.core import InputError
from penstock.wire import JobDetail, JobMetricsView

__all__ = ["MetricFormat", "export_metrics"]


class MetricFormat(StrEnum):
    """What metrics can be exported to."""

    CSV = "csv"
    MLFLOW = "mlflow"
    TENSORBOARD = "tensorboard"
    WANDB = "wandb"


_WRITERS: dict[MetricFormat, Callable[[JobDetail, JobMetricsView, Path], Path]] = {
    MetricFormat.CSV: write_csv,
    MetricFormat.MLFLOW: write_mlflow,
    MetricFormat.TENSORBOARD: write_tensorboard,
    MetricFormat.WANDB: write_wandb,
}


def export_metrics(kind: MetricFormat, job: JobDetail, metrics: JobMetricsView, directory: Path) -> Path:
    """Write the metrics of a job below ``directory``; returns what was written. Again, it replaces what it wrote."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return _WRITERS[kind](job, metrics, directory)
    except OSError as error:
        raise InputError(
            f"cannot write to {directory}: {error.strerror or error}", "a directory that you may write to"
        ) from None
