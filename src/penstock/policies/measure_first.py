"""Nobody is promised anything on a guess, and nobody is turned away on one.

A job whose speed was never measured is let onto devices before its deadline is answered: some seconds of its own run
tell more than any model. Until then the answer is "not yet", until its deadline has passed.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core import Job, Quote, Source, Verdict
from penstock.policies.base import Admission, JobsView, PlannedQuotes
from penstock.policies.columns import Ints

LONGEST_S = 120.0
SHARE = 0.25
"""A job waits for its speed on every kind of device at most this share of the time until its deadline."""
_NOT_KNOWN = "its speed was never measured and is not known yet: its deadline is answered when it has run some seconds"
_TOO_LATE = "its deadline has passed before its speed was known; it runs when it can"


class MeasureFirst:
    """Admission that defers whoever is still to be measured and leaves the others to ``admission``."""

    def __init__(self, admission: Admission[Any]) -> None:
        self._admission = admission

    def admit(self, view: JobsView, rows: Ints) -> Sequence[Quote | None]:
        unknown = {row for row in rows.tolist() if is_unmeasured(view.jobs[row], view.now)}
        if not unknown:
            return self._admission.admit(view, rows)
        asked = np.array([row for row in rows.tolist() if row not in unknown], dtype=np.int64)
        known = self._admission.admit(view, asked) if len(asked) else []
        answers, plans = iter(known), PlannedQuotes.plans_of(known)
        said = [_unknown(view.jobs[row], view.now) if row in unknown else next(answers) for row in rows.tolist()]
        return said if plans is None else PlannedQuotes(said, plans)


def patience(job: Job) -> float:
    """Until when a job waits to be measured on every kind of device it may run on; one is enough after that."""
    return job.submitted_at + min(LONGEST_S, SHARE * (job.deadline - job.submitted_at))


def weakest_source(job: Job) -> Source:
    """What the least certain part of its curve rests on."""
    found = {scaling.source for _, scaling in job.curve.scalings}
    return next(source for source in (Source.GUESSED, Source.PREDICTED, Source.MEASURED) if source in found)


def is_unmeasured(job: Job, now: float) -> bool:
    """Whether the deadline of a job waits for its speed."""
    if not (job.measure_first and math.isfinite(job.deadline)):
        return False
    guessed = [scaling.source is Source.GUESSED for _, scaling in job.curve.scalings]
    return any(guessed) if now < patience(job) else all(guessed)


def _unknown(job: Job, now: float) -> Quote:
    if now < job.deadline:
        return Quote(job_id=job.id, verdict=Verdict.DEFERRED, reason=_NOT_KNOWN)
    return Quote(job_id=job.id, verdict=Verdict.BEST_EFFORT, reason=_TOO_LATE)
