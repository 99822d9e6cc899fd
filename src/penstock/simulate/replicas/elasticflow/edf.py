"""Earliest deadline first in the artifact's world: each job as wide as it can be, in deadline order.

"As wide as it can be" means the last column of its table, even where throughput has long been falling: that, not the
deadline order, is why this baseline does so poorly in the published figures. Plain EDF ('edf') pays no overhead; with
admission ('edf-accessctrl') arrivals are tested one by one and rescheduling costs what it costs ElasticFlow.
"""

from collections.abc import Sequence
from math import ceil, inf

from penstock.simulate.replicas.elasticflow.events import Arrivals, next_moment
from penstock.simulate.replicas.elasticflow.jobs import ArtifactJob, ReplicaOutcome, ReplicaWorld
from penstock.simulate.replicas.elasticflow.nodes import place
from penstock.simulate.replicas.elasticflow.overhead import Trainers


def run_edf(jobs: Sequence[ArtifactJob], nodes: int, devices_per_node: int, slot: int) -> list[ReplicaOutcome]:
    """Run a trace to its end; every job is taken."""
    arrivals = Arrivals(jobs)
    world = _World(jobs, nodes * devices_per_node, slot)
    now, elapsed = arrivals.first_at, 0.0
    while now < inf:
        world.progress(now, elapsed)
        world.active += arrivals.take(now)
        world.adopt(world.plan(now, world.active), now)
        then = next_moment(now, slot, arrivals, world.ends())
        now, elapsed = then, then - now
    return world.ledger.outcomes()


def run_edf_admission(
    jobs: Sequence[ArtifactJob], nodes: int, devices_per_node: int, slot: int
) -> list[ReplicaOutcome]:
    """Run a trace to its end; a job is taken if it and everyone already here would be on time."""
    arrivals = Arrivals(jobs)
    world = _World(jobs, nodes * devices_per_node, slot)
    trainers = Trainers(nodes * devices_per_node, slot)
    now, elapsed = arrivals.first_at, 0.0
    while now < inf:
        world.progress(now, elapsed)
        accepted = [row for row in arrivals.take(now) if world.admit(row, now)]
        if not accepted:
            world.active.sort(key=world.due)
            planned = world.plan(now, world.active)
            # Jobs that are suspended keep the end they had, and leave at it if no arrival plans them anew.
            world.adopt({row: it for row, it in planned.items() if it[0] > 0}, now)
            world.suspend([row for row, it in planned.items() if it[0] == 0], now)
        running = [row for row in world.active if world.width[row] > 0]
        placed = place([world.width[row] for row in running], devices_per_node)
        for row, lost in zip(running, trainers.charge(placed), strict=True):
            world.overhead[row] = lost
            world.end[row] += lost
        then = next_moment(now, slot, arrivals, world.ends())
        now, elapsed = then, then - now
    return world.ledger.outcomes()


class _World(ReplicaWorld):
    def __init__(self, jobs: Sequence[ArtifactJob], capacity: int, slot: int) -> None:
        super().__init__(jobs, capacity, slot)
        self.started: set[int] = set()
        self.left = [float(job.iterations) for job in jobs]
        self.width = [0] * len(jobs)
        self.end = [0.0] * len(jobs)
        self.overhead = [0.0] * len(jobs)

    def due(self, row: int) -> float:
        return self.jobs[row].due

    def ends(self) -> list[float]:
        """When each job that has started is planned to leave."""
        return [self.end[row] for row in self.active if row in self.started]

    def progress(self, now: float, elapsed: float) -> None:
        """Time has passed: work is done, and jobs leave at their planned end or when their work is done."""
        for row in self.active:
            if self.width[row] > 0:
                self._advance(row, now, elapsed)
        gone = {row for row in self.started if self.end[row] <= now}
        for row in gone:
            self.ledger.end(row, self.end[row])
        self.started -= gone
        self.active = [row for row in self.active if row not in gone]

    def _advance(self, row: int, now: float, elapsed: float) -> None:
        self.ledger.spend(row, elapsed)
        rate = self.jobs[row].rate(self.width[row])
        worked = elapsed - max(now - self.end[row], 0.0)
        work = max(worked - self.overhead[row], 0.0) * rate
        self.overhead[row] = 0.0
        if self.left[row] <= work and self.end[row] > now:
            self.end[row] = min(now - elapsed + ceil(self.left[row] / rate), now)
        self.left[row] -= work

    def plan(self, now: float, rows: Sequence[int]) -> dict[int, tuple[int, float]]:
        """Width now and end of each job, in deadline order."""
        profile = _Profile(now, self.slot, self.capacity)
        return {row: profile.take(self.jobs[row], self.left[row]) for row in sorted(rows, key=self.due)}

    def admit(self, row: int, now: float) -> bool:
        planned = self.plan(now, [*self.active, row])
        if any(end > self.due(other) for other, (_, end) in planned.items()):
            self.ledger.decline(row)
            return False
        self.active.append(row)
        self.adopt(planned, now)
        return True

    def adopt(self, planned: dict[int, tuple[int, float]], now: float) -> None:
        """Put a plan into effect; a job starts when it first gets devices."""
        for row, (width, end) in planned.items():
            self._resize(row, width, now)
            self.end[row] = end
            if width > 0:
                self.started.add(row)

    def suspend(self, rows: list[int], now: float) -> None:
        for row in rows:
            self._resize(row, 0, now)

    def _resize(self, row: int, width: int, now: float) -> None:
        self.width[row] = width
        self.ledger.resize(row, width, now)


class _Profile:
    """Free devices over time, as breakpoints from now on."""

    def __init__(self, now: float, slot: float, capacity: int) -> None:
        self.now = now
        self.slot = slot
        self.capacity = capacity
        self.times = [now]
        self.free = [capacity]

    def take(self, job: ArtifactJob, left: float) -> tuple[int, float]:
        """Reserve a job as wide as fits until it is done; returns its width now and its end in whole seconds."""
        widest = _fit(min(job.widest, self.capacity))
        now_width = 0
        for k, begin in enumerate(self.times):
            last = k + 1 == len(self.times)
            free = self.capacity if last else self.free[k]
            width = min(widest, _fit(free))
            if k == 0:
                now_width = width
            if width == 0:
                continue
            end = float(ceil(begin + left / job.rate(width)))
            self.free[k] = free - width
            if last or end <= self.times[k + 1]:
                self._give_back(k, end, free)
                return now_width, end
            left -= (self.times[k + 1] - begin) * job.rate(width)
        return 0, inf

    def _give_back(self, k: int, end: float, free: int) -> None:
        """The devices are free again from the slot in which the job ends.

        If that is the next breakpoint, but the end is not on it, the artifact overwrites what was free there.
        """
        back = self.now + ceil((end - self.now) / self.slot) * self.slot
        if end not in self.times[k + 1 : k + 2]:
            if back in self.times[k + 1 : k + 2]:
                self.free[k + 1] = free
            else:
                self.times.insert(k + 1, back)
                self.free.insert(k + 1, free)
        self._compact()

    def _compact(self) -> None:
        kept = [k for k in range(len(self.times)) if k == 0 or self.free[k] != self.free[k - 1]]
        self.times = [self.times[k] for k in kept]
        self.free = [self.free[k] for k in kept]


def _fit(free: int) -> int:
    """The largest power of two within ``free``."""
    return 1 << (free.bit_length() - 1) if free > 0 else 0
