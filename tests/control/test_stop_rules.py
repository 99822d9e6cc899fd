"""Jobs that train until a metric says that it is enough: what the platform hears, keeps and says."""

from typing import Any

from penstock.core import MetricBest, ReportKind, StopRule, plain
from penstock.wire import JobPhase
from tests.control.build import ADMIN, Platform

REACH = StopRule(metric="val_acc", rising=True, target=0.9)


def until(rule: StopRule = REACH, **spec: Any) -> dict[str, Any]:
    return {"work": 100, "until": plain(rule), **spec}


def test_the_best_of_earlier_runs_goes_into_the_next(world: Platform) -> None:
    job = world.submit(**until())
    world.passes(3)
    for step, value in ((10, 0.5), (20, 0.7), (30, 0.6)):
        world.backend.tell(f"{job}.1", ReportKind.METRIC, step=step, value=value)
    world.passes(2)
    assert world.record(job).metric == [(10, 0.5), (20, 0.7), (30, 0.6)]
    world.commands.pause(job, ADMIN)
    world.passes(3)
    world.commands.resume(job, ADMIN)
    world.passes(3)
    launch = world.backend.all_runs[f"{job}.2"].launch
    assert (launch.until, launch.best) == (REACH, MetricBest(0.7, 20))
    world.backend.tell(f"{job}.2", ReportKind.METRIC, step=20, value=0.8)
    world.passes(2)
    assert world.record(job).metric == [(10, 0.5), (20, 0.8)]
    assert world.record(job).best == MetricBest(0.8, 20)


def test_why_it_ended_is_told_everywhere(world: Platform) -> None:
    job = world.submit(**until())
    world.passes(3)
    said = "val_acc >= 0.9 reached: 0.93 at step 40"
    world.backend.all_runs[f"{job}.1"].alive = False
    world.backend.tell(f"{job}.1", ReportKind.FINISHED, code=0, reason=said)
    world.passes(2)
    detail = world.platform.job(job, ADMIN)
    assert (detail.state, detail.reason) == (JobPhase.FINISHED, said)
    assert said in [entry.text for entry in world.platform.why(job, ADMIN).entries]


def test_a_metric_that_nobody_asked_for_is_no_news(world: Platform) -> None:
    job = world.submit(work=100)
    world.passes(3)
    before = world.journal.store.log.last()
    world.backend.tell(f"{job}.1", ReportKind.METRIC, step=1, value=0.5)
    world.passes(2)
    assert world.record(job).metric == []
    assert world.journal.store.log.last() == before
