"""Tiresias in the artifact's world ('dlas-gpu'): least attained service first, in three queues.

Jobs run rigidly, as wide and as long as in the trace. A job sinks to the next queue once it has used that queue's
device-seconds; queues are served in order, each first come first served, whatever fits. Starting or resuming costs
time, but the predicted end leaves that out, so short runs come out a little too fast.
"""

from collections.abc import Sequence
from math import ceil, inf

from penstock.simulate.replicas.elasticflow.events import Arrivals
from penstock.simulate.replicas.elasticflow.jobs import ArtifactJob, ReplicaOutcome, ReplicaWorld
from penstock.simulate.replicas.elasticflow.overhead import Restarts, seconds

QUEUE_LIMITS = (3250, 7200)
"""Device-seconds after which a job leaves the first and the second queue."""


def run_tiresias(jobs: Sequence[ArtifactJob], nodes: int, devices_per_node: int, slot: int) -> list[ReplicaOutcome]:
    """Run a trace to its end."""
    arrivals = Arrivals(jobs)
    world = _World(jobs, nodes * devices_per_node, slot)
    end, jump = inf, inf
    while (now := min(arrivals.first_at, end, jump)) < inf:
        if end <= now:
            world.finish()
        world.submit(arrivals.take(now))
        world.account(now)
        restart = world.schedule(now)
        end = world.next_end(now, restart)
        jump = max(world.next_jump(now), now + slot)
        arrivals.fold(now, slot)
    return world.ledger.outcomes()


class _World(ReplicaWorld):
    def __init__(self, jobs: Sequence[ArtifactJob], capacity: int, slot: int) -> None:
        super().__init__(jobs, capacity, slot)
        self.restarts = Restarts(slot)
        self.queues: list[list[int]] = [[], [], []]
        self.queue_of = [0] * len(jobs)
        self.running = [False] * len(jobs)
        self.executed = [0] * len(jobs)
        self.checked_at = [0.0] * len(jobs)
        self.overhead = [0.0] * len(jobs)
        self.ending: list[tuple[int, float]] = []
        """The jobs that end next, with their end; it may lie before the event that notices it."""

    def finish(self) -> None:
        for job, end in self.ending:
            self.ledger.end(job, end)
            self.active.remove(job)
            self.queues[self.queue_of[job]].remove(job)

    def submit(self, arriving: list[int]) -> None:
        self.active += arriving
        self.queues[0] += arriving

    def account(self, now: float) -> None:
        """Add up what ran since the last event and let jobs sink."""
        for job in self.active:
            if not self.running[job]:
                continue
            elapsed = int(now - self.checked_at[job])
            self.ledger.spend(job, elapsed)
            self.executed[job] = int(self.executed[job] + max(elapsed - self.overhead[job], 0.0))
            self.checked_at[job] = now
            self.overhead[job] = 0.0
            queue = self.queue_of[job]
            if queue < len(QUEUE_LIMITS) and self._service(job) >= QUEUE_LIMITS[queue]:
                self.queues[queue].remove(job)
                self.queues[queue + 1].append(job)
                self.queue_of[job] = queue + 1

    def _service(self, job: int) -> int:
        return self.executed[job] * self.jobs[job].requested

    def schedule(self, now: float) -> bool:
        """Serve the queues in order, whatever fits; those left out go to the end of their queue."""
        restart = self.restarts.due()
        free = self.capacity
        for queue in self.queues:
            for job in queue:
                width = self.jobs[job].requested
                fits = width <= free
                if fits:
                    free -= width
                if fits and not self.running[job]:
                    self.overhead[job] = seconds(width, self.capacity, restart=restart)
                    self.checked_at[job] = now
                self.running[job] = fits
                self.ledger.resize(job, width if fits else 0, now)
            queue.sort(key=lambda job: not self.running[job])
        self.active.sort(key=lambda job: -self.jobs[job].requested)
        return restart

    def next_end(self, now: float, restart: bool) -> float:
        """When the next jobs end, a slot from now at the earliest."""
        soonest = inf
        for job in self.active:
            if not self.running[job]:
                continue
            left = float(self.jobs[job].duration - self.executed[job])
            if restart:
                self.overhead[job] = seconds(self.jobs[job].requested, self.capacity, restart=True)
                left += self.overhead[job]
            end = float(int(now + left))
            noticed = max(now + self.slot, end)
            if noticed < soonest:
                soonest, self.ending = noticed, []
            if noticed == soonest:
                self.ending.append((job, end))
        return soonest

    def next_jump(self, now: float) -> float:
        """When the next job could sink; the artifact forgets the width of what it has already used."""
        soonest = inf
        for job in self.active:
            queue = self.queue_of[job]
            if self.running[job] and queue < len(QUEUE_LIMITS):
                ahead = ceil((QUEUE_LIMITS[queue] - self.executed[job]) / self.jobs[job].requested)
                soonest = min(soonest, now + ahead)
        return soonest
