"""What has become of a promised deadline, for lists, reports and metrics alike."""

import math

from penstock.core import LATE_TOLERANCE_S, FailureReason, Verdict
from penstock.wire import OVER, JobPhase

OWN_FAULTS = frozenset({FailureReason.EXIT, FailureReason.NONSENSE})
"""Failures of the job's own script, which break no promise."""


def promise_state(
    verdict: str | None, phase: str, ended_at: float | None, deadline: float, reason: str, now: float
) -> tuple[str, float]:
    """Return kept, broken, open, given up, failed, refused or none, and the seconds after the deadline.

    A promise of a job that has not ended is broken as soon as its deadline has passed. The seconds are infinite if the
    job ended without finishing.
    """
    over = phase in OVER
    late_s = (ended_at if over and ended_at is not None else now) - deadline
    if over and phase != JobPhase.FINISHED:
        late_s = math.inf
    if verdict == Verdict.REFUSED:
        return "refused", late_s
    if verdict != Verdict.PROMISED or math.isinf(deadline):
        return "none", late_s
    if phase == JobPhase.CANCELLED:
        return "given up", late_s
    if phase == JobPhase.FAILED and reason in OWN_FAULTS:
        return "failed", late_s
    if late_s > LATE_TOLERANCE_S:
        return "broken", late_s
    return "kept" if over else "open", late_s
