"""Random clusters, jobs and misfortunes, as hypothesis strategies."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from penstock.core import (
    ANYWHERE,
    Amendment,
    BestEffort,
    Cluster,
    Curve,
    CurveChanged,
    Deadline,
    DeviceLost,
    DeviceRestored,
    DevicesReleased,
    Event,
    EventError,
    Job,
    JobAmended,
    JobCancelled,
    JobFailed,
    JobPaused,
    JobResumed,
    JobSubmitted,
    Node,
    NodeChanged,
    NodeChoice,
    NodeClosed,
    NodeDraining,
    NodeJoined,
    NodeLost,
    Progress,
    Strictness,
    Work,
    WorkerFailed,
)
from penstock.scheduler.scheduler import Scheduler

MISFORTUNES = (
    "lose", "return", "cancel", "progress", "fail", "fail", "curve", "pause", "resume", "give up", "amend", "change",
    "break", "mend", "release", "close", "drain",
)  # fmt: skip
NODE_CHOICES = st.sampled_from(
    [
        *[ANYWHERE] * 6,
        NodeChoice(only=("gpu-0",)),
        NodeChoice(only=("gpu-0", "gpu-1")),
        NodeChoice(only=("gpu-1", "npu-0"), prefer=("npu-0",)),
        NodeChoice(avoid=("gpu-0",)),
        NodeChoice(prefer=("gpu-1",)),
    ]
)
"""Mostly anywhere; the others name nodes of :func:`clusters`, some of which are not there."""
ScriptEntry = Event | Callable[[Scheduler, float], Event | None]


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    nodes = []
    for kind in draw(st.sampled_from([("gpu",), ("gpu",), ("gpu", "npu")])):
        size = draw(st.sampled_from([1, 2, 4, 4, 6, 8]))
        count = draw(st.integers(1, 4))
        nodes += [Node(name=f"{kind}-{i}", device_count=size, kind=kind) for i in range(count)]
    return Cluster(tuple(nodes))


@st.composite
def curves(draw: st.DrawFn) -> Curve:
    counts = draw(st.sampled_from([(1, 2, 4, 8, 16), (1, 2, 4), (1,), (2, 4, 8), (1, 3, 6)]))
    growth = draw(st.lists(st.floats(0.7, 2.0), min_size=len(counts), max_size=len(counts)))
    rate, table = draw(st.floats(0.1, 20.0)), {}
    for count, factor in zip(counts, growth, strict=True):
        table[count] = rate
        rate *= factor
    return Curve.from_table(table)


@st.composite
def jobs(draw: st.DrawFn, number: int, submitted_at: float) -> Job:
    curve = draw(curves())
    seconds = draw(st.floats(5.0, 5000.0))
    work = seconds * curve.levels()[0][1]
    slack = draw(st.one_of(st.none(), st.floats(0.1, 3.0)))
    strictness = draw(st.sampled_from([Strictness.HARD, Strictness.HARD, Strictness.SOFT]))
    at_least = draw(st.sampled_from([1, 1, 1, 2]))
    return Job(
        id=f"job-{number}",
        work=Work(work),
        curve=curve,
        goal=BestEffort() if slack is None else Deadline(submitted_at + slack * seconds, strictness),
        submitted_at=submitted_at,
        requested=draw(st.sampled_from([1, 1, 2, 3, 4, 8])),
        at_least=at_least,
        at_most=draw(st.sampled_from([None, None, 4, 2])),
        kinds=draw(st.sampled_from([(), (), ("gpu",), ("npu",)])),
        checkpoint_every_s=draw(st.sampled_from([60.0, 600.0])),
        nodes=draw(NODE_CHOICES),
    )


def _some_job(scheduler: Scheduler, pick: int) -> str | None:
    active = scheduler.active()
    return active[pick % len(active)] if active else None


@dataclass(frozen=True)
class Misfortune:
    """Something that happens to whoever is there at that time."""

    what: str
    pick: int
    amount: float

    def __call__(self, scheduler: Scheduler, now: float) -> Event | None:
        nodes = scheduler.cluster.nodes
        node = nodes[self.pick % len(nodes)]
        if self.what == "lose":
            return NodeLost(now, node.name)
        if self.what == "close":
            return NodeClosed(now, node.name, slots=(self.pick % 5,) if self.pick % 2 else ())
        if self.what == "return":
            position = scheduler.cluster.position(node.name)
            return None if position is None else NodeJoined(now, scheduler.cluster.nodes[position])
        if self.what == "change":
            return NodeChanged(now, replace(node, device_count=1 + self.pick % 5))
        if self.what == "grow":
            return NodeChanged(now, replace(node, device_count=8))
        if self.what in ("break", "mend"):
            position = scheduler.cluster.position(node.name)
            slot = self.pick % scheduler.cluster.nodes[position or 0].device_count
            name = scheduler.cluster.nodes[position or 0].name
            return DeviceLost(now, name, slot) if self.what == "break" else DeviceRestored(now, name, slot)
        if self.what == "drain":
            position = scheduler.cluster.position(node.name)
            name = scheduler.cluster.nodes[position or 0].name
            return NodeDraining(now, name, now + 100.0 * self.amount if self.pick % 3 else math.inf)
        if self.what == "resume":
            paused = scheduler.paused()
            return JobResumed(now, paused[self.pick % len(paused)]) if paused else None
        job_id = _some_job(scheduler, self.pick)
        if job_id is None:
            return None
        if self.what == "cancel":
            return JobCancelled(now, job_id)
        if self.what == "pause":
            return JobPaused(now, job_id)
        if self.what == "release":
            return DevicesReleased(now, job_id) if scheduler.devices_of(job_id) else None
        if self.what == "give up":
            return JobFailed(now, job_id, "it cannot be helped")
        if self.what == "amend":
            return self._amendment(scheduler, job_id, now)
        if self.what == "progress":
            return Progress(now, job_id, scheduler.remaining(job_id) * self.amount + 1e-6)
        if self.what == "curve":
            curve = Curve.from_table({1: self.amount, 2: 1.5 * self.amount})
            return CurveChanged(now, job_id, curve) if scheduler.can_use(job_id, curve) else None
        return WorkerFailed(now, job_id) if scheduler.devices_of(job_id) else None

    def _amendment(self, scheduler: Scheduler, job_id: str, now: float) -> Event | None:
        """Nothing where the job could never run so."""
        goal = Deadline(now + 2000.0 * self.amount)
        amendment = Amendment(goal=goal, at_least=1 + self.pick % 2, at_most=2 + self.pick % 3)
        try:
            scheduler.amended(job_id, amendment)
        except EventError:
            return None
        return JobAmended(now, job_id, amendment)


@st.composite
def scripts(draw: st.DrawFn, misfortunes: bool) -> tuple[list[ScriptEntry], list[float]]:
    """Submissions, misfortunes in between, and at the end every node back in place."""
    script: list[ScriptEntry] = []
    times: list[float] = []
    now = 0.0
    for number in range(draw(st.integers(1, 12))):
        now += draw(st.sampled_from([0.0, 0.0, 1.0, 30.0, 200.0, 2000.0]))
        script.append(JobSubmitted(now, draw(jobs(number, now))))
        times.append(now)
        if misfortunes and draw(st.booleans()):
            now += draw(st.floats(0.0, 500.0))
            what = draw(st.sampled_from(MISFORTUNES))
            script.append(Misfortune(what, draw(st.integers(0, 20)), draw(st.floats(0.2, 3.0))))
            times.append(now)
    for pick in range(16):
        for what in ("return", "mend", "grow", "resume") if misfortunes else ("return",):
            script.append(Misfortune(what, pick, 1.0))
            times.append(now + 1000.0)
    assert all(math.isfinite(at) for at in times)
    return script, times
