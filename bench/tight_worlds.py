"""Worlds that are hard on promises: tight deadlines, odd counts, bursts, several kinds, leases, edits, counter-offers.

Drawn independently of the generator that the policies' settings were chosen on. Curves and costs are exact, so every
broken promise is the scheduler's fault. The books of :mod:`bench.books` judge.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from bench.books import Books, Reply, offered
from penstock.core import (
    FREE,
    Amendment,
    BestEffort,
    Cluster,
    Costs,
    Curve,
    Deadline,
    Event,
    Job,
    JobAmended,
    JobCancelled,
    JobPaused,
    JobResumed,
    Node,
    NodeChoice,
    NodeDraining,
    NodeJoined,
    NodeLost,
    Overhead,
    Scaling,
    Span,
    Strictness,
    Tenant,
    TenantChanged,
    Work,
)
from penstock.policies import policy_named

DEAR = Overhead(change_s=17.0, per_doubling_s=9.0, worst_s=17.0 + 9.0 * 6)
MILD = Overhead(change_s=4.2, worst_s=4.2)
FIVE_KINDS = "3x8xA+4x4xB+5x3xC+8x1xD+3x5xE"


@dataclass(frozen=True)
class JobMix:
    """How the jobs of a world are drawn; loads are device-time asked for over device-time there is."""

    count: int = 250
    load: float = 1.5
    burst: int = 1
    counts: Sequence[int] = tuple(range(1, 20))
    most_counts: int = 5
    slack: Callable[[random.Random, float], float] = lambda rng, alone_s: alone_s * rng.uniform(0.6, 3.0)
    best_effort: float = 0.0
    soft: float = 0.0
    unresumable: float = 0.0
    confined: float = 0.0
    tenants: int = 1
    priorities: tuple[int, int] = (0, 0)
    costs: bool = False
    some_kinds: bool = False
    work: Callable[[random.Random], float] = lambda rng: 60.0 * 10 ** rng.uniform(0.5, 3.0)

    def draw(self, rng: random.Random, cluster: Cluster) -> list[Job]:
        """Jobs by arrival."""
        widest = min(max(cluster.capacity(kind) for kind in cluster.kinds), 64)
        jobs, at = [], 0.0
        for index in range(self.count):
            counts = sorted(
                rng.sample([each for each in self.counts if each <= widest], rng.randint(1, self.most_counts))
            )
            power, work = rng.uniform(0.6, 1.0), self.work(rng)
            rates = tuple(count**power for count in counts)
            if index % self.burst == 0:
                mean_cost = 60.0 * 110.0 * 3.0
                at += rng.expovariate(self.load * cluster.device_count / (mean_cost * self.burst))
            jobs.append(self._job(rng, cluster, f"j{index}", at, tuple(counts), rates, work))
        return jobs

    def _job(
        self, rng: random.Random, cluster: Cluster, name: str, at: float, counts: tuple[int, ...],
        rates: tuple[float, ...], work: float,
    ) -> Job:  # fmt: skip
        curve = self._curve(rng, cluster, counts, rates)
        alone_s = work / max(scaling.rates[0] for _, scaling in curve.scalings)
        goal = BestEffort() if rng.random() < self.best_effort else Deadline(
            at + max(self.slack(rng, alone_s), 1e-3), Strictness.SOFT if rng.random() < self.soft else Strictness.HARD
        )  # fmt: skip
        costs = Costs(start=Span(rng.uniform(0, 20), 30.0), resize=Span(rng.uniform(0, 8), 9.0),
                      end=Span(rng.uniform(0, 5), 8.0)) if self.costs else Costs()  # fmt: skip
        nodes = NodeChoice()
        if rng.random() < self.confined:
            names = [node.name for node in cluster.nodes]
            nodes = NodeChoice(only=tuple(rng.sample(names, rng.randint(1, max(len(names) // 2, 1)))))
        least = counts[0]
        return Job(
            id=name, work=Work(work), curve=curve, goal=goal, submitted_at=at, requested=least, at_least=least,
            tenant=f"t{rng.randrange(self.tenants)}", priority=rng.randint(*self.priorities), costs=costs,
            resumable=rng.random() >= self.unresumable, nodes=nodes, checkpoint_every_s=600.0,
        )  # fmt: skip

    def _curve(self, rng: random.Random, cluster: Cluster, counts: tuple[int, ...], rates: tuple[float, ...]) -> Curve:
        if not self.some_kinds:
            return Curve((("*", Scaling(counts=counts, rates=rates)),))
        kinds = rng.sample(list(cluster.kinds), rng.randint(1, len(cluster.kinds)))
        scalings = []
        for kind in kinds:
            usable = [
                (count, rate) for count, rate in zip(counts, rates, strict=True) if count <= cluster.capacity(kind)
            ]
            if usable:
                factor = rng.uniform(0.3, 1.0)
                scalings.append((kind, Scaling(counts=tuple(count for count, _ in usable),
                                               rates=tuple(rate * factor for _, rate in usable))))  # fmt: skip
        return Curve(tuple(scalings)) if scalings else Curve((("*", Scaling(counts=counts, rates=rates)),))


def exactly(_rng: random.Random, alone_s: float) -> float:
    """The deadline is the run time at the fewest devices."""
    return alone_s


def with_some_slack(rng: random.Random, alone_s: float) -> float:
    """Not at all, a slot, and a little more."""
    return alone_s + rng.choice((0.0, 60.0, 61.0, 120.0, 300.0))


Script = Callable[[random.Random, Cluster, Sequence[Job]], list[Event]]


def no_events(_rng: random.Random, _cluster: Cluster, _jobs: Sequence[Job]) -> list[Event]:
    return []


def leases(rng: random.Random, cluster: Cluster, jobs: Sequence[Job], *, count: int = 40) -> list[Event]:
    """Nodes that join with a known end and leave then."""
    until, events = jobs[-1].submitted_at * 1.2, list[Event]()
    for index in range(count):
        at = rng.uniform(0.0, until)
        end = at + rng.uniform(600.0, until / 3 + 1200.0)
        node = Node(name=f"lease-{index}", device_count=rng.randint(1, 8), kind=cluster.kinds[0])
        events += [NodeJoined(at, node, end), NodeLost(end, node.name)]
    return events


def leased_from_the_start(rng: random.Random, cluster: Cluster, jobs: Sequence[Job], *, stay: int = 2) -> list[Event]:
    """All nodes but some leave at a time that is known from the start."""
    until, events = jobs[-1].submitted_at * 1.2, list[Event]()
    for node in cluster.nodes[stay:]:
        end = rng.uniform(until / 4, until)
        events += [NodeDraining(0.0, node.name, end), NodeLost(end, node.name)]
    return events


def wishes_of_users(rng: random.Random, _cluster: Cluster, jobs: Sequence[Job]) -> list[Event]:
    """Most jobs are paused and resumed, edited or cancelled."""
    events = list[Event]()
    for job in jobs:
        at, due = job.submitted_at + rng.uniform(1.0, 4000.0), job.deadline
        match rng.choice(("nothing", "nothing", "pause", "edit", "cancel", "priority")):
            case "pause":
                back = at + rng.uniform(1.0, 3000.0)
                events += [JobPaused(at, job.id), JobResumed(back, job.id, Deadline(max(due, back) + 4000.0))]
            case "edit":
                later = Deadline(max(due, at) + rng.uniform(-300.0, 3000.0) + 301.0)
                events.append(JobAmended(at, job.id, Amendment(goal=later)))
            case "cancel":
                events.append(JobCancelled(at, job.id))
            case "priority":
                events.append(JobAmended(at, job.id, Amendment(priority=rng.randint(-5, 5))))
    return events


def changing_tenants(rng: random.Random, _cluster: Cluster, jobs: Sequence[Job]) -> list[Event]:
    """Shares change, thirty times."""
    until = jobs[-1].submitted_at
    return [TenantChanged(rng.uniform(0, until), Tenant(name=f"t{rng.randrange(5)}", share=rng.uniform(0.2, 5.0)))
            for _ in range(30)]  # fmt: skip


def quotas(_rng: random.Random, cluster: Cluster, _jobs: Sequence[Job]) -> list[Event]:
    """Quotas, one not lent, one limited, one that may not borrow, one of a higher class."""
    size = cluster.device_count
    return [
        TenantChanged(0.0, Tenant(name="t0", quota=size // 4)),
        TenantChanged(0.0, Tenant(name="t1", quota=size // 8, lending=False)),
        TenantChanged(0.0, Tenant(name="t2", limit=size // 3)),
        TenantChanged(0.0, Tenant(name="t3", quota=size // 8, borrowing=False)),
        TenantChanged(0.0, Tenant(name="t4", priority=5)),
    ]


@dataclass(frozen=True)
class TightWorld:
    """A cluster, its jobs and what happens to it."""

    name: str
    cluster: str = "8x8"
    mix: JobMix = field(default_factory=JobMix)
    slot: float = 0.0
    overhead: Overhead = FREE
    script: Script = no_events
    reply: Reply | None = None

    def play(self, seed: int, policy: str) -> Books:
        """One seed under a policy."""
        rng, cluster = random.Random(f"{self.name} {seed}"), Cluster.parse(self.cluster)
        jobs = self.mix.draw(rng, cluster)
        events = self.script(rng, cluster, jobs)
        books = Books.of(cluster, policy_named(policy), slot=self.slot, overhead=self.overhead, reply=self.reply)
        return books.play(jobs, events)


_TIGHT = JobMix(slack=with_some_slack)
_EXACT = JobMix(slack=exactly)
TIGHT_WORLDS = (
    TightWorld("usual slack"),
    TightWorld("usual slack, slot 60, dear", slot=60.0, overhead=DEAR),
    TightWorld("exact run time", mix=_EXACT),
    TightWorld("exact run time, slot 60", mix=_EXACT, slot=60.0),
    TightWorld("tight", mix=_TIGHT, slot=60.0),
    TightWorld("tight, slot 0", mix=_TIGHT),
    TightWorld("tight, bursts of 4", mix=replace(_TIGHT, burst=4), slot=60.0),
    TightWorld("tight, three kinds, bursts", "2x8xA+4x4xB+6x2xC",
               replace(_TIGHT, burst=3, some_kinds=True, counts=tuple(range(1, 13))), slot=60.0),
    TightWorld("five kinds", FIVE_KINDS, JobMix(some_kinds=True, counts=tuple(range(1, 13)), slack=with_some_slack),
               slot=60.0),
    TightWorld("two kinds, mild, slot 0", "4x8xA+8x4xB", JobMix(some_kinds=True), overhead=MILD),
    TightWorld("offers accepted at once", mix=replace(_TIGHT, load=3.0), reply=offered),
    TightWorld("offers accepted at once, slot 60", mix=replace(_TIGHT, load=3.0), slot=60.0, reply=offered),
    TightWorld("offers accepted after 30 s", mix=replace(_TIGHT, load=3.0), reply=partial(offered, after=30.0)),
    TightWorld("offers accepted after 30 s, dear", mix=JobMix(load=3.0), overhead=DEAR, slot=10.0,
               reply=partial(offered, after=30.0)),
    TightWorld("offers, three kinds", "2x8xA+4x4xB+6x2xC",
               JobMix(load=3.0, some_kinds=True, counts=tuple(range(1, 13)), slack=with_some_slack), reply=offered),
    TightWorld("leases", "2x8", slot=0.0, script=leases),
    TightWorld("leases, mild, slot 60", "2x8", slot=60.0, overhead=MILD, script=leases),
    TightWorld("leased from the start", "14x4", script=leased_from_the_start),
    TightWorld("leased from the start, mild", "14x4", slot=30.0, overhead=MILD, script=leased_from_the_start),
    TightWorld("leases, tight, three kinds", "2x8xA+4x4xB+6x2xC",
               replace(_TIGHT, some_kinds=True, counts=tuple(range(1, 13))), slot=60.0, script=leases),
    TightWorld("leases, some not resumable", "4x8", JobMix(unresumable=0.5), script=leases),
    TightWorld("leased from the start, some not resumable", "14x4", JobMix(unresumable=0.5), overhead=MILD,
               script=leased_from_the_start),
    TightWorld("leased from the start, some confined", "14x4", JobMix(confined=0.3, counts=(1, 2, 3, 4, 5)),
               script=leased_from_the_start),
    TightWorld("leases, offers accepted after 30 s", "4x8", replace(_TIGHT, load=3.0), script=leases,
               reply=partial(offered, after=30.0)),
    TightWorld("quotas, offers accepted at once", mix=replace(_TIGHT, load=3.0, tenants=5), script=quotas,
               reply=offered),
    TightWorld("confined, not resumable, offers", mix=replace(_TIGHT, count=100, load=3.0, confined=0.3,
                                                              unresumable=0.3, counts=(1, 2, 3, 4, 5)), reply=offered),
    TightWorld("users edit, pause, cancel", script=wishes_of_users),
    TightWorld("users edit, pause, cancel, slot 60", slot=60.0, overhead=MILD, script=wishes_of_users),
    TightWorld("not resumable", mix=JobMix(unresumable=0.5), overhead=MILD),
    TightWorld("not resumable, tight", mix=replace(_TIGHT, unresumable=1.0)),
    TightWorld("confined", mix=JobMix(confined=0.4, counts=(1, 2, 3, 4, 5))),
    TightWorld("costs of their own, dear", mix=JobMix(costs=True), overhead=DEAR, slot=10.0),
    TightWorld("priorities, best effort", mix=JobMix(best_effort=0.4, priorities=(-5, 100), tenants=4)),
    TightWorld("soft deadlines", mix=JobMix(soft=0.5, best_effort=0.2)),
    TightWorld("quotas", mix=JobMix(tenants=5), script=quotas),
    TightWorld("shares change", mix=JobMix(tenants=5, best_effort=0.3), script=changing_tenants),
    TightWorld("load 4, bursts of 20", mix=JobMix(load=4.0, burst=20)),
    TightWorld("all at once", mix=JobMix(burst=250)),
    TightWorld("small work", mix=JobMix(work=lambda rng: 10 ** rng.uniform(-9, 2))),
)  # fmt: skip
