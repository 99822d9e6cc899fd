"""Metrics as a file store of MLflow: experiment ``penstock``, one run for each job, its job file as parameters.

The layout is MLflow's own (``EXPERIMENT/RUN/metrics/NAME`` with lines of time, value and step). Ids follow from the
job's id, so that a job that is exported again replaces its run.
"""

import hashlib
import shutil
from pathlib import Path

import yaml

from penstock.tools import flat_texts
from penstock.wire import JobDetail, JobMetricsView, MetricView

EXPERIMENT = "penstock"
_LONGEST_PARAMETER = 6000
_STATUS = {"finished": 3, "failed": 4, "cancelled": 5, "declined": 4}
_RUNNING = 1
_LOCAL_SOURCE = 4


def write_mlflow(job: JobDetail, metrics: JobMetricsView, directory: Path) -> Path:
    """``EXPERIMENT/RUN``."""
    experiment = directory / experiment_id()
    experiment.mkdir(exist_ok=True)
    begun = _milliseconds(job.submitted_at.timestamp())
    if not (experiment / "meta.yaml").exists():
        about = {"experiment_id": experiment.name, "name": EXPERIMENT, "lifecycle_stage": "active"}
        location = {"artifact_location": experiment.resolve().as_uri()}
        _write_yaml(experiment / "meta.yaml", about | location | {"creation_time": begun, "last_update_time": begun})
    run = experiment / run_id(job.id)
    shutil.rmtree(run, ignore_errors=True)
    for folder in ("metrics", "params", "tags", "artifacts"):
        (run / folder).mkdir(parents=True)
    _write_metrics(metrics, run / "metrics")
    for key, value in flat_texts(job.spec).items():
        _write_below(run / "params", key, value[:_LONGEST_PARAMETER])
    for key, value in (("mlflow.runName", job.name), ("penstock.job", job.id), ("penstock.tenant", job.tenant)):
        (run / "tags" / key).write_text(value)
    _write_yaml(run / "meta.yaml", _about(job, run))
    return run


def experiment_id() -> str:
    """MLflow counts experiments by numbers of eighteen digits."""
    return str(int(hashlib.sha256(EXPERIMENT.encode()).hexdigest(), 16))[:18]


def run_id(job_id: str) -> str:
    return hashlib.sha256(job_id.encode()).hexdigest()[:32]


def _about(job: JobDetail, run: Path) -> dict[str, object]:
    return {
        "artifact_uri": (run / "artifacts").resolve().as_uri(), "run_id": run.name, "run_uuid": run.name,
        "run_name": job.name, "experiment_id": run.parent.name, "lifecycle_stage": "active", "tags": [],
        "status": _STATUS.get(job.state, _RUNNING), "user_id": job.tenant,
        "start_time": _milliseconds((job.started_at or job.submitted_at).timestamp()),
        "end_time": _milliseconds(job.ended_at.timestamp()) if job.ended_at else None,
        "source_name": "penstock", "source_type": _LOCAL_SOURCE, "source_version": "", "entry_point_name": "",
    }  # fmt: skip


def _write_metrics(metrics: JobMetricsView, folder: Path) -> None:
    """A metric ``a`` beside one ``a/b`` is called ``a_``: a file store cannot have both."""
    folders = {metric.name.rpartition("/")[0] for metric in metrics.metrics}
    folders |= {parent for name in folders for parent in _parents(name)}
    for metric in metrics.metrics:
        _write_below(folder, f"{metric.name}_" if metric.name in folders else metric.name, _lines(metric))


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _lines(metric: MetricView) -> str:
    points = zip(metric.steps, metric.times, metric.values, strict=True)
    return "".join(f"{_milliseconds(at)} {value!r} {step}\n" for step, at, value in points)


def _write_below(folder: Path, name: str, text: str) -> None:
    """A file of this name, which may be a path; parts that would lead elsewhere become ``_``."""
    parts = [part if part.strip(".") else "_" for part in name.split("/")]
    path = folder.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _write_yaml(path: Path, values: dict[str, object]) -> None:
    path.write_text(yaml.safe_dump(values))


def _milliseconds(at: float) -> int:
    return round(1e3 * at)
