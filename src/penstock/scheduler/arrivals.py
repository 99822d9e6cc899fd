"""What has been asked for lately: a memory of arrivals that fades, so that it follows the load and stays small."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.core import Job
from penstock.policies import COST_CLASSES, ArrivalStatistics, Floats

FADES_IN_S = 2 * 86_400.0
"""After so long an arrival counts for 1/e: a weekday is remembered on the next."""


class Arrivals:
    """Device-seconds asked for by jobs with deadlines, by class of cost; the time observed and the time they had."""

    def __init__(self) -> None:
        self.work: Floats = np.zeros(COST_CLASSES)
        self.observed_s = 0.0
        self.jobs = 0.0
        self.given_s = 0.0
        self.last = math.nan

    def copy(self) -> "Arrivals":
        other = Arrivals()
        other.__dict__.update(self.__dict__)
        other.work = self.work.copy()
        return other

    def add(self, job: Job, kind: str, now: float) -> None:
        """A job asks; one without a deadline promises to be patient and does not count."""
        if not math.isfinite(job.deadline):
            return
        self._fade(now)
        count, rate = job.curve.levels(kind, job.at_least)[0]
        cost = max(count * job.work.iterations / rate, 1.0)
        self.work[min(math.ceil(math.log2(cost)), COST_CLASSES - 1)] += cost
        self.jobs += 1.0
        self.given_s += max(job.deadline - now, 0.0)

    def shown(self, now: float) -> ArrivalStatistics:
        """The devices that such work keeps busy over the time observed and the time it has."""
        if not self.jobs:
            return ArrivalStatistics.none()
        since = max(now - self.last, 0.0)
        seconds = self.observed_s * math.exp(-since / FADES_IN_S) + since + self.given_s / self.jobs
        return ArrivalStatistics(self.work * math.exp(-since / FADES_IN_S) / max(seconds, 1.0))

    def to_data(self) -> dict[str, Any]:
        return {
            "work": self.work.tolist(), "observed_s": self.observed_s, "jobs": self.jobs, "given_s": self.given_s,
            "last": None if math.isnan(self.last) else self.last,
        }  # fmt: skip

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Arrivals":
        arrivals = cls()
        arrivals.work = np.array(data["work"])
        arrivals.observed_s, arrivals.jobs, arrivals.given_s = data["observed_s"], data["jobs"], data["given_s"]
        arrivals.last = math.nan if data["last"] is None else data["last"]
        return arrivals

    def _fade(self, now: float) -> None:
        since = 0.0 if math.isnan(self.last) else max(now - self.last, 0.0)
        kept = math.exp(-since / FADES_IN_S)
        self.work *= kept
        self.jobs *= kept
        self.given_s *= kept
        self.observed_s = self.observed_s * kept + min(since, FADES_IN_S)
        self.last = now
