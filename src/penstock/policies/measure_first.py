"""Nobody is promised anything on a guess.

A job whose speed was never measured is let onto free devices before its deadline is answered: some seconds of its own
run tell more than any model. Until then, and no longer than :func:`patience` allows, the answer is "not yet".
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core import Job, Quote, Source, Verdict
from penstock.policies.base import Admission, JobsView
from penstock.policies.columns import Ints

LONGEST_S = 120.0
SHARE = 0.25
"""A job waits for its answer at most this share of the time until its deadline: the rest is for training."""


class MeasureFirst:
    """Admission that defers whoever is still to be measured and leaves the others to ``admission``."""

    def __init__(self, admission: Admission[Any]) -> None:
        self._admission = admission

    def admit(self, view: JobsView, rows: Ints) -> Sequence[Quote | None]:
        unknown = {row for row in rows.tolist() if _waits(view.jobs[row], view.now)}
        asked = np.array([row for row in rows.tolist() if row not in unknown], dtype=np.int64)
        answers = iter(self._admission.admit(view, asked)) if len(asked) else iter(())
        return [_not_yet(view.jobs[row]) if row in unknown else next(answers) for row in rows.tolist()]


def patience(job: Job) -> float:
    """Until when a job may be measured before it is answered on a guess after all."""
    return job.submitted_at + min(LONGEST_S, SHARE * (job.deadline - job.submitted_at))


def weakest_source(job: Job) -> Source:
    """What the least certain part of its curve rests on."""
    found = {scaling.source for _, scaling in job.curve.scalings}
    return next(source for source in (Source.GUESSED, Source.PREDICTED, Source.MEASURED) if source in found)


def _waits(job: Job, now: float) -> bool:
    return (
        job.measure_first
        and math.isfinite(job.deadline)
        and now < patience(job)
        and weakest_source(job) is Source.GUESSED
    )


def _not_yet(job: Job) -> Quote:
    return Quote(
        job_id=job.id, verdict=Verdict.DEFERRED, answer_by=patience(job),
        reason="its speed was never measured: it runs on free devices for some seconds, then its deadline is answered",
    )  # fmt: skip
