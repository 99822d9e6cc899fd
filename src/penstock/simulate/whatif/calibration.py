"""How well a replay under the rules that really ran reproduces what happened, and whether that is enough to conclude.

Whoever asks what another policy would have done is told of the difference between two replays. That says something
about the real cluster only if the first of them, under the policy that really ran, comes out as it was. Where it does
not, nothing is concluded, and the jobs that come out otherwise are named with what is otherwise about them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from penstock.core import format_duration
from penstock.simulate.outcomes import Fate, JobOutcome
from penstock.simulate.whatif.past import Past, PastJob
from penstock.simulate.whatif.replay import Figures, ReplayedPast, figures_of

TOLERANCE = 0.05
"""The share by which a figure of the replay may differ from the real one."""
TYPICAL_TOLERANCE = 0.15
"""The share of all completion times by which single jobs may differ in sum, one way or the other."""
FEWEST = 20
"""With fewer jobs that finished, chance decides what comes out."""
MOST_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A job that came out otherwise; ``why`` says what was otherwise about it."""

    job_id: str
    real_s: float
    replayed_s: float
    why: str

    @property
    def seconds(self) -> float:
        """How far it is off; infinite where it did not finish in the replay."""
        return math.inf if math.isnan(self.replayed_s) else abs(self.replayed_s - self.real_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The real figures beside the replayed ones, and the share by which each differs."""

    real: Figures
    replayed: Figures
    errors: dict[str, float] = field(default_factory=dict)
    typical: float = math.nan
    """All differences of completion times, one way or the other, as a share of all completion times."""
    deviations: Sequence[Deviation] = ()
    doubts: Sequence[str] = ()
    """Why nothing is concluded; nothing if the replay is good enough."""

    @property
    def conclusive(self) -> bool:
        return not self.doubts


def calibrate(past: Past, replayed: ReplayedPast) -> Calibration:
    """Compare a replay under the rules that really ran with what happened."""
    real = real_figures(past)
    errors = {
        "mean completion": _error(real.completion_mean_s, replayed.figures.completion_mean_s),
        "p90 completion": _error(real.completion_p90_s, replayed.figures.completion_p90_s),
        "device-seconds": _error(real.device_seconds, replayed.figures.device_seconds),
        "promises kept": _share(real.kept, replayed.figures.kept, real.promised),
    }
    off = [deviation for job in past.finished if (deviation := _deviation(job, replayed)) is not None]
    total = sum(job.completion_s for job in past.finished)
    missed = sum(min(deviation.seconds, deviation.real_s) for deviation in off)
    typical = missed / total if total else math.nan
    off.sort(key=lambda deviation: -min(deviation.seconds, deviation.real_s))
    return Calibration(
        real=real, replayed=replayed.figures, errors=errors, typical=typical, deviations=off[:MOST_NAMED],
        doubts=_doubts(past, errors, typical),
    )  # fmt: skip


def real_figures(past: Past) -> Figures:
    """What really happened, in the figures of a replay."""
    outcomes = {job.id: _real_outcome(job) for job in past.jobs}
    held = sum(stretch.overlap(past.since, past.until) for job in past.jobs for stretch in job.real.stretches)
    return figures_of(past, outcomes, device_seconds=held, cluster=past.cluster)


def _doubts(past: Past, errors: dict[str, float], typical: float) -> list[str]:
    finished = len(past.finished)
    if finished < FEWEST:
        return [f"{finished} jobs finished in this time; fewer than {FEWEST} tell nothing about a policy"]
    found = [
        f"{name} of the replay is {_percent(error)} off, allowed are {_percent(TOLERANCE)}"
        for name, error in errors.items()
        if abs(error) > TOLERANCE
    ]
    if typical > TYPICAL_TOLERANCE:
        found.append(f"single jobs end {_percent(typical)} off, allowed are {_percent(TYPICAL_TOLERANCE)}")
    return found


def _real_outcome(job: PastJob) -> JobOutcome:
    real, stretches = job.real, job.real.stretches
    done = real.ended_at if real.finished else math.nan
    fate = Fate.DECLINED if real.ending == "declined" else Fate.UNFINISHED if math.isnan(done) else Fate.DONE
    pairs = list(pairwise(stretches))
    return JobOutcome(
        id=job.id, fate=fate, model=job.job.model, tenant=job.job.tenant, submitted_at=job.job.submitted_at,
        deadline=job.job.deadline, promised=real.promised, started_at=real.started_at, finished_at=done,
        requested=job.job.requested, device_seconds=real.device_seconds,
        rescales=sum(after.since <= before.until for before, after in pairs),
        suspensions=sum(after.since > before.until for before, after in pairs),
    )  # fmt: skip


def _deviation(job: PastJob, replayed: ReplayedPast) -> Deviation | None:
    outcome = replayed.outcomes.get(job.id)
    ended = math.nan if outcome is None else outcome.completion_s
    if abs(ended - job.completion_s) <= TOLERANCE * job.completion_s:
        return None
    why = "it never asked in the replay" if outcome is None else _why(job, outcome)
    return Deviation(job_id=job.id, real_s=job.completion_s, replayed_s=ended, why=why)


def _why(job: PastJob, outcome: JobOutcome) -> str:
    """The difference that explains most of it."""
    if outcome.fate is Fate.DECLINED:
        return "it is refused in the replay, and really ran"
    if math.isnan(outcome.finished_at):
        return "it does not finish in the replay"
    real, waited = _real_outcome(job), outcome.started_at - job.real.started_at
    off = outcome.finished_at - real.finished_at
    if abs(waited) > abs(off) / 2 and waited * off > 0:
        return f"it starts {format_duration(abs(waited))} {'later' if waited > 0 else 'earlier'} in the replay"
    if outcome.suspensions != real.suspensions:
        return f"it is interrupted {outcome.suspensions} times in the replay, really {real.suspensions}"
    return (
        f"it holds {_width(outcome):.1f} devices on average in the replay, really {_width(real):.1f}, "
        f"and takes {format_duration(abs(off))} {'longer' if off > 0 else 'less'}"
    )


def _width(outcome: JobOutcome) -> float:
    ran = outcome.finished_at - outcome.started_at
    return outcome.device_seconds / ran if ran > 0 else 0.0


def _error(real: float, replayed: float) -> float:
    if math.isnan(real) and math.isnan(replayed):
        return 0.0
    if not real or math.isnan(real) or math.isnan(replayed):
        return 0.0 if real == replayed else math.inf
    return replayed / real - 1.0


def _share(real: int, replayed: int, of: int) -> float:
    return (replayed - real) / max(of, 1)


def _percent(share: float) -> str:
    return f"{100 * abs(share):.1f} %" if math.isfinite(share) else "beyond measure"
