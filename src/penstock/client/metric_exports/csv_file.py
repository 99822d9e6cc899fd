"""Metrics as a table: one line for each point, of one job or of several."""

import csv
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from penstock.core import plain_value
from penstock.wire import JobDetail, JobMetricsView

COLUMNS = ("job", "metric", "step", "time", "value", "low", "high")


def write_csv(job: JobDetail, metrics: JobMetricsView, directory: Path) -> Path:
    """``ID.csv``."""
    path = directory / f"{job.id}.csv"
    with path.open("w", newline="") as file:
        write_table([metrics], file)
    return path


def write_table(jobs: Iterable[JobMetricsView], file: TextIO) -> None:
    """The points of some jobs, with a line of names first."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for job in jobs:
        for metric in job.metrics:
            columns = (metric.steps, metric.times, metric.values, metric.lows, metric.highs)
            for step, at, value, low, high in zip(*columns, strict=True):
                moment = datetime.fromtimestamp(at, UTC).isoformat()
                writer.writerow((job.job_id, metric.name, step, moment, *map(plain_value, (value, low, high))))
