"""Evaluations of a job's checkpoints on the wire."""

from datetime import datetime

from pydantic import Field

from penstock.wire.metric_views import MetricNumber
from penstock.wire.views import WireModel


class EvaluationView(WireModel):
    """One checkpoint and the job that evaluates it."""

    step: int
    job_id: str
    state: str
    submitted_at: datetime
    ended_at: datetime | None = None
    results: dict[str, MetricNumber] = Field(default={}, description="What was found, by data set and metric: arc/acc.")
    worse: list[str] = Field(default=[], description="What is clearly below the best of earlier checkpoints.")
    passed_over: list[int] = Field(default=[], description="Steps that were due before it and never evaluated.")
    reason: str = ""


class EvaluationList(WireModel):
    """The evaluations of a job in the order of their steps."""

    job_id: str
    name: str
    evaluations: list[EvaluationView]
