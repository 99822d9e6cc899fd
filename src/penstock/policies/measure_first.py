"""Nobody is promised anything on a guess, and nobody is turned away on one.

A job whose speed was never measured is let onto devices before its deadline is answered: some seconds of its own run
tell more than any model. Until then the answer is "not yet", until its deadline has passed. The same holds for a job
that was measured on fewer devices than it takes only, for as long as it can wait; after that it is promised what its
slowest possible speed allows. A job that can be in time only on more devices than it was measured on, if it is as fast
there as predicted, is measured there first (:func:`counts_to_measure`).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core import Job, Quote, Scaling, Source, Verdict
from penstock.policies.base import Admission, JobsView, PlannedQuotes
from penstock.policies.columns import Floats, Ints
from penstock.policies.view import View

LONGEST_S = 120.0
SHARE = 0.25
"""A job waits for its speed on every kind of device at most this share of the time until its deadline."""
_NOT_KNOWN = "its speed was never measured and is not known yet: its deadline is answered when it has run some seconds"
_NOT_THERE = (
    "its speed on {devices}, the fewest it takes, was never measured: its deadline is answered when it has run there"
    " some seconds"
)
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
    """Return what the least certain rate that the job may run at rests on."""
    found = {_source(job, scaling) for _, scaling in job.curve.scalings}
    return next(source for source in (Source.GUESSED, Source.PREDICTED, Source.MEASURED) if source in found)


def _source(job: Job, scaling: Scaling) -> Source:
    """A curve that was predicted elsewhere only is a measured one for a job that may use what was measured only."""
    if scaling.source is not Source.PREDICTED or job.at_least not in scaling.measured:
        return scaling.source
    inside = (count for count in scaling.counts if count >= job.at_least and count <= (job.at_most or math.inf))
    return Source.MEASURED if all(map(scaling.is_measured, inside)) else Source.PREDICTED


def is_unmeasured(job: Job, now: float) -> bool:
    """Whether the deadline of a job waits for its speed."""
    if not (job.measure_first and math.isfinite(job.deadline)):
        return False
    scalings = [scaling for _, scaling in job.curve.scalings]
    if now >= patience(job):
        return all(scaling.source is Source.GUESSED for scaling in scalings)
    return not all(is_least_known(job, scaling) for scaling in scalings)


def is_least_known(job: Job, scaling: Scaling) -> bool:
    """Return whether a job was measured on as many devices as it takes at least, or its speed follows from its model.

    On fewer devices than it was measured on it keeps its share; on more it may be no faster at all.
    """
    if scaling.source is Source.GUESSED:
        return False
    return not scaling.measured or scaling.measured[-1] >= job.at_least


def counts_to_measure(view: View, rows: Ints) -> Ints:
    """Return, for each row of the view, on how many devices a job is measured before its deadline is answered; else 0.

    The fewest, never measured, on which a job among ``rows`` is probably in time, if there are none where it surely is.
    """
    counts = np.zeros(len(view), dtype=np.int64)
    if not any(options.doubts.any() for options in view.by_kind):
        return counts
    still = np.where(view.width > 0, view.still_s, view.start_s)
    left_s = view.deadline - view.overhead.worst_s - view.reserve_s - view.now - still
    needed: Floats = (view.remaining / np.maximum(left_s, 1e-9))[:, None]
    likely = np.any([(each.rates >= needed).any(axis=1) for each in view.by_kind], axis=0)
    surely = np.any([(each.rates * (1.0 - each.doubts) >= needed).any(axis=1) for each in view.by_kind], axis=0)
    for row in rows[(likely & ~surely)[rows]].tolist():
        if view.jobs[row].measure_first:
            counts[row] = _least_unmeasured(view, row, float(needed[row, 0]))
    return counts


def _least_unmeasured(view: View, row: int, needed: float) -> int:
    """The fewest devices on which a job is predicted to be as fast as needed, and was never measured; 0 if none.

    A job that would begin again on other devices stays on those it holds.
    """
    found, held = [], 0 if view.resumable[row] else int(view.width[row])
    for kind, options in zip(view.kinds, view.by_kind, strict=True):
        scaling = view.jobs[row].curve.scaling(kind)
        fast = options.levels[row, options.rates[row] >= needed].tolist()
        fast = [count for count in fast if held in (0, count)]
        found += [count for count in fast if scaling is not None and not scaling.is_measured(count)]
    return min(found, default=0)


def devices_text(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"


def _unknown(job: Job, now: float) -> Quote:
    if any(scaling.measured and not is_least_known(job, scaling) for _, scaling in job.curve.scalings):
        reason = _NOT_THERE.format(devices=devices_text(job.at_least))
        return _deferred(job, reason)
    if now < job.deadline:
        return _deferred(job, _NOT_KNOWN)
    return Quote(job_id=job.id, verdict=Verdict.BEST_EFFORT, reason=_TOO_LATE)


def _deferred(job: Job, reason: str) -> Quote:
    return Quote(
        job_id=job.id, verdict=Verdict.DEFERRED, reason=reason, answer_by=job.deadline, measured_on=job.at_least
    )  # fmt: skip
