"""Gandiva in the artifact's world: time slicing inside groups of nodes that host jobs of one size.

Jobs run rigidly, as wide and as long as in the trace. Nodes are grouped into sets, each for one job size; a set holds
more jobs than it can run at once and takes turns. The clock jumps from arrival to arrival while there are any and walks
in slots afterwards, so a job's end is noticed late but dated back. Sizes of nodes, not their identity, matter here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.simulate.replicas.elasticflow.events import Arrivals
from penstock.simulate.replicas.elasticflow.jobs import ArtifactJob, OutcomeRecorder, ReplicaOutcome
from penstock.simulate.replicas.elasticflow.overhead import Restarts, seconds

TURN_S = 60
"""Jobs only take turns when the clock shows a multiple of this."""


@dataclass(slots=True)
class _NodeSet:
    """Nodes that host jobs of one size; the first ``capacity`` jobs run."""

    nodes: int
    capacity: int
    load: int = 0
    """Jobs ever put here since the set was last rearranged; leaving does not lower it (as in the artifact)."""
    jobs: list[int] = field(default_factory=list)

    def add(self, job: int) -> None:
        self.jobs.append(job)
        self.load += 1

    @property
    def running(self) -> list[int]:
        return self.jobs[: self.capacity]


class _Groups:
    """All node sets by job size, least loaded first, and the nodes in none of them."""

    def __init__(self, sizes: set[int], nodes: int, per_node: int) -> None:
        self.capacity = nodes * per_node
        self.per_node = per_node
        self.free_nodes = nodes
        self.sets: dict[int, list[_NodeSet]] = {size: [] for size in sorted(sizes)}

    def place(self, job: int, size: int) -> bool:
        """Put a job on a set with room, else on a new set, else on the least loaded one; False if there is none."""
        sets = self.sets[size]
        if sets:
            emptiest = sets.pop(0)
            sets.append(emptiest)
            if emptiest.load + 1 < emptiest.capacity:
                emptiest.add(job)
                sets.sort(key=_load)
                return True
        fresh = self._open(size)
        if fresh is not None:
            fresh.add(job)
            sets.append(fresh)
        elif sets:
            shared = sets.pop(0)
            shared.add(job)
            sets.append(shared)
        else:
            return False
        sets.sort(key=_load)
        return True

    def rebalance(self) -> None:
        """Give each size nodes in proportion to the devices its jobs ask for."""
        demand = {size: size * sum(len(s.jobs) for s in sets) for size, sets in self.sets.items()}
        held = {size: self.per_node * sum(s.nodes for s in sets) for size, sets in self.sets.items()}
        total = sum(demand.values())
        for size, wanted in demand.items():
            if wanted == 0:
                continue
            target = min(int(wanted / total * self.capacity), wanted)
            missing = target - held[size]
            if missing > 0:
                self._expand(size, -(-missing // size))
            elif missing < 0:
                self._shrink(size, -(missing // size))

    def release_empty(self, size: int) -> bool:
        """Hand back the nodes of sets without jobs."""
        empty = [s for s in self.sets[size] if not s.jobs]
        self.free_nodes += sum(s.nodes for s in empty)
        self.sets[size] = [s for s in self.sets[size] if s.jobs]
        return bool(empty)

    def _open(self, size: int) -> _NodeSet | None:
        nodes = -(-size // self.per_node)
        if nodes > self.free_nodes:
            return None
        self.free_nodes -= nodes
        return _NodeSet(nodes, nodes * self.per_node // size)

    def _expand(self, size: int, count: int) -> None:
        """Open sets and spread the jobs anew.

        The artifact forgets to spread them when the last of ``count`` sets could be opened and is a single node; those
        sets stay empty and are handed back at once.
        """
        sets = self.sets[size]
        opened = [self._open(size) for _ in range(count)]
        sets += [fresh for fresh in opened if fresh is not None]
        if opened[-1] is not None and opened[-1].nodes == 1:
            return
        jobs = [job for s in sets for job in s.jobs]
        for s in sets:
            s.jobs, s.load = [], 0
        self._spread(size, jobs)

    def _shrink(self, size: int, count: int) -> None:
        """Close the least loaded sets, but never the last one, and move their jobs to the others."""
        sets = self.sets[size]
        closing = sets[: max(min(count, len(sets) - 1), 0)]
        del sets[: len(closing)]
        self.free_nodes += sum(s.nodes for s in closing)
        self._spread(size, [job for s in closing for job in s.jobs])

    def _spread(self, size: int, jobs: list[int]) -> None:
        for job in jobs:
            self.sets[size][0].add(job)
            self.sets[size].sort(key=_load)


def _load(node_set: _NodeSet) -> int:
    return node_set.load


def run_gandiva(jobs: Sequence[ArtifactJob], nodes: int, devices_per_node: int, slot: int) -> list[ReplicaOutcome]:
    """Run a trace to its end."""
    arrivals = Arrivals(jobs)
    world = _World(jobs, nodes, devices_per_node, slot)
    now, elapsed = arrivals.first_at, 0.0
    while arrivals or world.running:
        world.groups.rebalance()
        released = world.execute(now, elapsed)
        world.start(arrivals.take(now), now)
        if released:
            world.start_pending(now)
        if arrivals:
            world.pay()
            arrivals.fold(now, slot)
            then = arrivals.first_at
        else:
            then = now + slot
        now, elapsed = then, then - now
    return world.ledger.outcomes()


class _World:
    def __init__(self, jobs: Sequence[ArtifactJob], nodes: int, devices_per_node: int, slot: int) -> None:
        self.jobs = jobs
        self.capacity = nodes * devices_per_node
        self.groups = _Groups({job.requested for job in jobs}, nodes, devices_per_node)
        self.restarts = Restarts(slot)
        self.ledger = OutcomeRecorder(jobs)
        self.executed = [0.0] * len(jobs)
        self.overhead = [0.0] * len(jobs)
        self.running: set[int] = set()
        self.pending: list[int] = []
        self.ever_pending: set[int] = set()

    def execute(self, now: float, elapsed: float) -> bool:
        """Run the jobs whose turn it was, end the finished, take turns; True if a set became empty."""
        released = False
        turn = int(now) % TURN_S == 0
        for size, sets in self.groups.sets.items():
            for node_set in sets:
                running = node_set.running
                done = [job for job in running if self._advance(job, now, elapsed)]
                if turn and len(node_set.jobs) > node_set.capacity:
                    node_set.jobs = node_set.jobs[node_set.capacity :] + running
                node_set.jobs = [job for job in node_set.jobs if job not in done]
            released |= self.groups.release_empty(size)
        for job in self.ever_pending:
            self.overhead[job] = 0.0
        return released

    def _advance(self, job: int, now: float, elapsed: float) -> bool:
        self.executed[job] += max(elapsed - self.overhead[job], 0.0)
        self.overhead[job] = 0.0
        self.ledger.spend(job, elapsed)
        surplus = self.executed[job] - self.jobs[job].duration
        if surplus < 0:
            return False
        self.running.remove(job)
        self.ledger.end(job, now - surplus)
        return True

    def start(self, arriving: list[int], now: float) -> None:
        for job in arriving:
            if not self._place(job, now):
                self.pending.append(job)
                self.ever_pending.add(job)

    def start_pending(self, now: float) -> None:
        """Try the waiting jobs; the artifact skips the one after each that starts."""
        position = 0
        while position < len(self.pending):
            if self._place(self.pending[position], now):
                del self.pending[position]
            position += 1

    def _place(self, job: int, now: float) -> bool:
        size = self.jobs[job].requested
        if not self.groups.place(job, size):
            return False
        self.running.add(job)
        self.ledger.resize(job, size, now)
        return True

    def pay(self) -> None:
        """Everyone in the system loses time, whether it runs or waits for its turn."""
        restart = self.restarts.due()
        for job in self.running:
            self.overhead[job] = seconds(self.jobs[job].requested, self.capacity, restart=restart)
