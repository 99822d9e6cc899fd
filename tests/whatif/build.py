"""Pasts to replay: one that a simulation made, and one that a platform without processes lived through."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from penstock.control.future.whatif import study_database
from penstock.core import FREE, Cluster, Curve, Deadline, Job, Work
from penstock.policies import policy_named
from penstock.simulate import Past, PastJob, PastRules, RealCourse, Result, Stretch, simulate
from penstock.wire import WhatIfReport, WhatIfRequest
from tests.control.build import ADMIN, Platform, platform
from tests.control.fake_backend import Run

CURVE = Curve.from_table({1: 1.0, 2: 1.9, 4: 3.4, 8: 5.5})
CLUSTER = Cluster.parse("2x4")
SLOT = 10.0


def drawn_jobs(count: int, seed: int = 1) -> list[Job]:
    """Jobs of two tenants, half of them with deadlines."""
    draw = random.Random(seed)
    jobs, now = [], 0.0
    for number in range(count):
        now += draw.expovariate(1 / 60)
        work = draw.uniform(50, 600)
        job = Job(
            id=f"job-{number}", work=Work(work), curve=CURVE, submitted_at=now, requested=draw.choice((1, 2, 4)),
            tenant=draw.choice(("vision", "speech")),
        )  # fmt: skip
        jobs.append(replace(job, goal=Deadline(now + draw.uniform(1, 6) * work)) if number % 2 else job)
    return jobs


def simulated_past(jobs: Sequence[Job], policy: str) -> Past:
    """What a simulation lived through, as if it had been real."""
    result = simulated(jobs, policy)
    assert result.timeline is not None
    outcomes = {outcome.id: outcome for outcome in result.outcomes}
    held: dict[str, list[Stretch]] = {job.id: [] for job in jobs}
    for bar in result.timeline.bars:
        held[bar.job_id].append(Stretch("gpu", bar.count, 1, bar.start, bar.end))
    past = []
    for job in jobs:
        outcome = outcomes[job.id]
        ending = "declined" if outcome.fate == "declined" else "finished"
        real = RealCourse(
            ending=ending, started_at=outcome.started_at, ended_at=outcome.finished_at, promised=outcome.promised,
            stretches=held[job.id],
        )  # fmt: skip
        past.append(PastJob(job=job, arrives_at=job.submitted_at, curve=job.curve, real=real))
    last = max(outcome.finished_at for outcome in result.outcomes if not math.isnan(outcome.finished_at))
    rules = PastRules(at=0.0, policy=policy, slot=SLOT, overhead=FREE)
    return Past(since=0.0, until=last, cluster=CLUSTER, rules=[rules], jobs=past, events=[])


def simulated(jobs: Sequence[Job], policy: str) -> Result:
    return simulate(jobs, CLUSTER, policy_named(policy), slot=SLOT, timeline=True)


def live_through(world: Platform, count: int, seed: int = 1) -> list[str]:
    """Jobs come, some are cancelled or paused, the others end; the clock jumps to what happens next."""
    draw = random.Random(seed)
    ids: list[str] = []
    for number in range(count):
        goal = {"within": 100.0 * draw.uniform(1, 4)} if draw.random() < 0.5 else {}
        ids.append(world.submit(name=f"job{number}", work=world.backend.total, **goal))
        world.passes()
        if draw.random() < 0.05:
            pass_until(world, world.clock.time + 5.0)
            world.commands.cancel(ids[-1], ADMIN)
            world.passes()
        pass_until(world, world.clock.time + draw.uniform(10, 45))
    while world.journal.state.scheduler.active():
        pass_until(world, world.clock.time + 100.0)
    world.journal.publish()
    return ids


def pass_until(world: Platform, until: float) -> None:
    """Passes of the loop whenever a run ends or a decision is due."""
    while (now := world.clock.time) < until:
        ends = [run.updated_at + (world.backend.total - run.step) / len(run.launch.workers) for run in _alive(world)]
        due = [at for at in (*ends, world.journal.state.wake_at) if at > now]
        world.clock.time = min([*due, until])
        world.passes()


def _alive(world: Platform) -> list[Run]:
    return [run for run in world.backend.all_runs.values() if run.alive]


class LivedThrough:
    """A database that a platform has written, and when it stopped."""

    def __init__(self, folder: Path) -> None:
        with platform(folder) as world:
            live_through(world, 30, seed=3)
            self.now = world.clock.time
        self.url = f"sqlite:///{folder}/penstock.db"

    def study(self, **wanted: object) -> WhatIfReport:
        return study_database(self.url, WhatIfRequest.model_validate({"since": "30d", **wanted}), self.now)
