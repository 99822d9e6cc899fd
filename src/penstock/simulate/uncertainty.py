"""How far the scheduler's belief may be from what happens: speeds that are wrong, and what it is told about that."""

from dataclasses import dataclass, replace
from functools import lru_cache

from penstock.core import Curve, InputError, Job
from penstock.simulate.traces import uniform_draw


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncertainty:
    """A world in which every job runs at its own multiple of the speed that its curve says.

    The multiple is drawn once per job, uniform between ``1 - wrong_by`` and ``1 + wrong_by``, and holds on all devices.
    ``doubts`` is what the scheduler is told: the share by which any rate may turn out lower. Jobs report what is left
    every ``report_every_s``, and their end when it comes; the curve that the scheduler believes stays as it was.
    """

    wrong_by: float = 0.0
    doubts: float = 0.0
    report_every_s: float = 600.0
    seed: int = 0

    def __post_init__(self) -> None:
        for what, share in (("wrong by", self.wrong_by), ("doubts of", self.doubts)):
            if not 0.0 <= share < 1.0:
                raise InputError(f"curves {what} {100 * share:g}%", "0% up to, not including, 100%", "Try 20%")
        if not 1.0 <= self.report_every_s < float("inf"):
            raise InputError(f"progress reported every {self.report_every_s:g} s", "at least one second", "Try 10m")

    def speed(self, job_id: str) -> float:
        """How many times as fast as its curve says this job really runs."""
        return 1.0 + self.wrong_by * (2.0 * uniform_draw(self.seed, "speed", job_id) - 1.0)

    def believed(self, job: Job) -> Job:
        """The job as the scheduler is told about it, with the doubts stated."""
        return replace(job, curve=_doubted(job.curve, self.doubts)) if self.doubts else job


@lru_cache(maxsize=65536)
def _doubted(curve: Curve, doubt: float) -> Curve:
    return Curve(
        tuple(
            (kind, replace(scaling, doubts=tuple(max(doubt, curve.doubt(count, kind)) for count in scaling.counts)))
            for kind, scaling in curve.scalings
        )
    )
