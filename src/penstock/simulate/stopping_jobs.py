"""A world in which some jobs end when their metric says so, and nobody knows in advance when that is.

Each such job has a learning curve of its own and a target that the curve reaches after 30 to 100 % of the job's work;
the scheduler is told the work as the most, hears the metric as far as it has come, and forecasts from that as the live
platform does. Beside it there are two other schedulers to compare with: one that knows every end in advance, and one
that counts on the most for everybody.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from penstock.core import InputError, Job, Outlook, StopRule, Work
from penstock.learn import forecast_metric
from penstock.simulate.learning_curves import CurveFamily, LearningCurve, draw_curve, target_at
from penstock.simulate.stop_knowledge import StopKnowledge
from penstock.simulate.traces import uniform_draw

_EARLIEST = 0.3
_EVALUATIONS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppingJobs:
    """``share`` of the jobs end by their metric, of a curve of one of the ``families``; reports come regularly."""

    share: float
    knowledge: StopKnowledge = StopKnowledge.FORECAST
    families: tuple[CurveFamily, ...] = tuple(CurveFamily)
    report_every_s: float = 600.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.share <= 1.0 or not self.families:
            raise InputError(f"{100 * self.share:g}% of the jobs end by a metric", "0% to 100%", "Try 50%")

    def believed(self, job: Job) -> Job:
        """The job as the scheduler is told about it."""
        if not self.stops(job):
            return job
        curve, rule = self._course(job.id, job.work.iterations)
        if self.knowledge is StopKnowledge.ORACLE:
            return replace(job, work=Work(curve.end(rule)))
        return replace(job, work=Work(job.work.iterations, rule))

    def stops(self, job: Job) -> bool:
        """Whether a job ends by its metric; one with too few iterations to evaluate does not."""
        return job.work.iterations >= _EVALUATIONS and uniform_draw(self.seed, "stops", job.id) < self.share

    def undone(self, job: Job) -> float:
        """Iterations that such a job, as it is believed, leaves undone."""
        if job.work.until is None:
            return 0.0
        curve, rule = self._course(job.id, job.work.iterations)
        return job.work.iterations - curve.end(rule)

    def outlook(self, job: Job, done: float) -> Outlook | None:
        """What the metric tells after so many iterations; nothing if nobody asks it, or too little is known."""
        if job.work.until is None or self.knowledge is not StopKnowledge.FORECAST:
            return None
        curve, rule = self._course(job.id, job.work.iterations)
        evaluated = int(done / curve.most * curve.evaluations)
        return _foretold(rule, curve, evaluated)

    def _course(self, job_id: str, most: float) -> tuple[LearningCurve, StopRule]:
        return _drawn(self.families, self.seed, job_id, most)


@lru_cache(maxsize=65536)
def _drawn(families: tuple[CurveFamily, ...], seed: int, job_id: str, most: float) -> tuple[LearningCurve, StopRule]:
    rng = np.random.default_rng(int(uniform_draw(seed, "learning curve", job_id) * 2**53))
    family = families[int(rng.integers(len(families)))]
    curve = draw_curve(family, most, rng, evaluations=_EVALUATIONS)
    return curve, target_at(curve, float(rng.uniform(_EARLIEST, 1.0)))


@lru_cache(maxsize=65536)
def _foretold(rule: StopRule, curve: LearningCurve, evaluated: int) -> Outlook | None:
    """The same metric tells the same to everybody who asks."""
    forecast = forecast_metric(rule, curve.points()[:evaluated], curve.most)
    return None if forecast is None else forecast.outlook
