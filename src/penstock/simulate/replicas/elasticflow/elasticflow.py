"""ElasticFlow in the artifact's world ('ef-accessctrl').

At every event the jobs progress, the finished leave, arrivals are admitted together or not at all, everyone is planned
anew, idle devices are shared out, and each running job pays for being rescheduled. Three habits of the original matter:
jobs leave at their planned end, whatever is left of their work; the moment compared with a deadline is that of the base
plan without overhead; and a job that is late already makes every later admission fail.
"""

from collections.abc import Sequence
from math import inf

import numpy as np
import numpy.typing as npt

from penstock.simulate.replicas.elasticflow.events import Arrivals, next_moment
from penstock.simulate.replicas.elasticflow.jobs import LEVELS, ArtifactJob, OutcomeRecorder, ReplicaOutcome
from penstock.simulate.replicas.elasticflow.nodes import place
from penstock.simulate.replicas.elasticflow.overhead import Trainers
from penstock.simulate.replicas.elasticflow.two_level_plan import Batch, TwoLevelPlans, give_idle, plan

Rows = npt.NDArray[np.int64]


def run_elasticflow(jobs: Sequence[ArtifactJob], nodes: int, devices_per_node: int, slot: int) -> list[ReplicaOutcome]:
    """Run a trace to its end."""
    arrivals = Arrivals(jobs)
    world = _World(jobs, nodes, devices_per_node, slot)
    now, elapsed = arrivals.first_at, 0.0
    while now < inf:
        world.progress(now, elapsed)
        planned = world.admit(now, arrivals.take(now))
        change = world.share(now, planned)
        wakes = [change] if change < min([arrivals.first_at, *world.ends()]) else []
        world.pay()
        then = next_moment(now, slot, arrivals, world.ends() + wakes)
        now, elapsed = then, then - now
    return world.ledger.outcomes()


class _World:
    """The state of all jobs, one row each, and who is in the system, in the artifact's order."""

    def __init__(self, jobs: Sequence[ArtifactJob], nodes: int, devices_per_node: int, slot: int) -> None:
        self.capacity = nodes * devices_per_node
        self.per_node = devices_per_node
        self.slot = slot
        self.ledger = OutcomeRecorder(jobs)
        self.trainers = Trainers(self.capacity, slot)
        self.active: Rows = np.empty(0, dtype=np.int64)
        self.deadline = np.array([job.due for job in jobs])
        self.rates = np.array([job.rates for job in jobs])
        self.top = np.array([_usable_levels(job) for job in jobs], dtype=np.int64)
        self.left = np.array([float(job.iterations) for job in jobs])
        self.width = np.zeros(len(jobs), dtype=np.int64)
        self.rate = np.zeros(len(jobs))
        self.end = np.zeros(len(jobs))
        self.real_end = np.zeros(len(jobs))
        self.overhead = np.zeros(len(jobs))

    def progress(self, now: float, elapsed: float) -> None:
        """Time has passed: work is done, and jobs leave at their planned end or when their work is done."""
        rows = self.active[self.width[self.active] > 0]
        worked = elapsed - np.maximum(now - self.real_end[rows], 0.0)
        work = np.maximum(worked - self.overhead[rows], 0.0) * self.rate[rows]
        early = (self.left[rows] <= work) & (self.end[rows] > now)
        done_at = now - elapsed + np.ceil(self.left[rows] / self.rate[rows])
        self.end[rows] = np.where(early, done_at, self.end[rows])
        self.left[rows] -= work
        gone = early | (self.end[rows] <= now)
        for row in rows.tolist():
            self.ledger.spend(row, elapsed)
        for row in rows[gone].tolist():
            self.ledger.end(row, float(self.end[row]), float(self.real_end[row]))
        self.active = self.active[~np.isin(self.active, rows[gone])]

    def admit(self, now: float, arriving: list[int]) -> TwoLevelPlans:
        """Plan with the arrivals; if anyone would be late, decline all of them but best-effort jobs."""
        rows = np.concatenate([self.active, np.array(arriving, dtype=np.int64)])
        planned = plan(now, self.slot, self.capacity, self._batch(rows))
        if arriving and (planned.real_end > self.deadline[rows]).any():
            for row in arriving:
                if self.deadline[row] < inf:
                    self.ledger.decline(row)
            patient = [row for row in arriving if self.deadline[row] == inf]
            rows = np.concatenate([self.active, np.array(patient, dtype=np.int64)])
            planned = plan(now, self.slot, self.capacity, self._batch(rows))
        self.active = rows
        return planned

    def share(self, now: float, planned: TwoLevelPlans) -> float:
        """Hand out idle devices and put the plans into effect; returns the next planned change."""
        rows = self.active
        final = give_idle(planned, self._batch(rows))
        self.width[rows] = final.width
        self.end[rows] = final.end
        self.real_end[rows] = final.real_end
        for row, width in zip(rows.tolist(), final.width.tolist(), strict=True):
            self.ledger.resize(row, width, now)
        by_gain = rows[final.order]
        self.active = by_gain[np.argsort(-self.width[by_gain], kind="stable")]
        return final.next_change

    def pay(self) -> None:
        """Every job that holds devices loses time, and its end moves out by as much."""
        self.overhead[self.active] = 0.0
        rows = self.active[self.width[self.active] > 0]
        widths = self.width[rows]
        self.rate[rows] = self.rates[rows, np.log2(widths).astype(np.int64)]
        lost = self.trainers.charge(place(widths.tolist(), self.per_node))
        self.overhead[rows] = lost
        self.end[rows] += lost

    def ends(self) -> list[float]:
        """When each job in the system is planned to leave, running or not."""
        ends: list[float] = self.end[self.active].tolist()
        return ends

    def _batch(self, rows: Rows) -> Batch:
        return Batch(self.deadline[rows], self.left[rows], self.rates[rows], self.top[rows])


def _usable_levels(job: ArtifactJob) -> int:
    """How many levels, from one device up, are within the cap and can run."""
    usable = 0
    for level, rate in zip(LEVELS, job.rates, strict=True):
        if level > job.cap or rate <= 0:
            break
        usable += 1
    return usable
