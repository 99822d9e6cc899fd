"""Metrics as a log directory of TensorBoard: ``tensorboard --logdir DIR`` shows each exported job as a run."""

from pathlib import Path

from penstock.tools import Scalar, scalar_record, version_record, write_atomically
from penstock.wire import JobDetail, JobMetricsView


def write_tensorboard(job: JobDetail, metrics: JobMetricsView, directory: Path) -> Path:
    """``NAME-ID/events.out.tfevents.…``."""
    began = job.submitted_at.timestamp()
    folder = directory / f"{job.name}-{job.id}"
    folder.mkdir(exist_ok=True)
    scalars = [
        Scalar(metric.name, step, at, value)
        for metric in metrics.metrics
        for step, at, value in zip(metric.steps, metric.times, metric.values, strict=True)
    ]
    path = folder / f"events.out.tfevents.{began:.0f}.penstock"
    write_atomically(path, version_record(began) + b"".join(map(scalar_record, scalars)))
    return folder
