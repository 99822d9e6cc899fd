"""Evaluations of checkpoints as the state knows them: jobs that are called after the job and the step they look at."""

import re
from dataclasses import dataclass

_ID = re.compile(r"e-([0-9a-z]{8}(?:-[0-9]+)?)-([0-9]+)")
_JOB, EVALUATION_PREFIX = "j-", "e-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluates:
    """What an evaluation looks at: the checkpoint of a ``step`` of the job ``job_id``.

    Checkpoints that were ``passed_over`` were due before it, and a newer one was there when somebody had time.
    """

    job_id: str
    step: int
    checkpoint: str
    passed_over: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """One metric that an evaluation found, called ``SET/METRIC``."""

    metric: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestEvaluation:
    """The last checkpoint of a job that was given to an evaluation, and when."""

    job_id: str
    step: int
    at: float


def evaluation_id(job_id: str, step: int) -> str:
    """The id of the job that evaluates a step: the same step is never evaluated twice."""
    return f"{evaluations_of(job_id)}-{step}"


def evaluations_of(job_id: str) -> str:
    """What the ids of all evaluations of a job begin with, before the dash and the step."""
    return f"{EVALUATION_PREFIX}{job_id.removeprefix(_JOB)}"


def evaluated_job(job_id: str) -> str | None:
    """The job that an evaluation is of; nothing for any other job."""
    found = _ID.fullmatch(job_id)
    return None if found is None else f"{_JOB}{found[1]}"
