"""Jobs that train until a metric says that it is enough: what the platform hears, keeps and says."""

import math
from typing import Any

import pytest

from penstock.control.state.state_data import state_from_data, state_to_data
from penstock.core import BestEffort, MetricBest, ReportKind, StopRule, Unlikely, plain
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


def tell_curve(world: Platform, job: str, *, ceiling: float, to: int, work: int = 1000) -> None:
    """Values that rise towards a ceiling, a hundredth of the work apart."""
    for step in range(work // 100, to + 1, work // 100):
        value = ceiling * (1.0 - math.exp(-4.0 * step / work))
        world.backend.tell(f"{job}.1", ReportKind.METRIC, step=step, value=value)
        world.step()


@pytest.mark.parametrize("policy", ["deadline", "srtf"])
def test_what_is_left_follows_the_metric_and_is_replayed_from_the_log(world: Platform, policy: str) -> None:
    world.restart(policy=policy)
    world.backend.total = 1000
    job = world.submit(**until(work=1000, at_most=1))
    world.passes(3)
    tell_curve(world, job, ceiling=1.0, to=300)
    record, state = world.record(job), world.journal.state
    assert record.outlook is not None
    assert record.outlook.expected == pytest.approx(575, rel=0.25)
    assert record.outlook.reach > 0.8
    assert state.remaining(record, world.clock()) == pytest.approx(record.total, rel=0.05)
    assert any(entry.text.startswith("its metric tells: ") for entry in world.platform.why(job, ADMIN).entries)
    again = state_from_data(state_to_data(state))
    assert again.remaining(again.record(job), world.clock()) == state.remaining(record, world.clock())
    assert again.record(job) == record
    outlook = record.outlook
    world.restart(policy=policy)
    assert world.record(job).outlook == outlook
    world.passes(20)
    assert world.platform.job(job, ADMIN).progress is not None


def unlikely(behaviour: Unlikely, **spec: Any) -> dict[str, Any]:
    return until(StopRule(metric="val_acc", rising=True, target=0.9, if_unlikely=behaviour), work=1000, **spec)


def test_a_job_that_will_not_get_there_is_told_and_goes_on(world: Platform) -> None:
    world.backend.total = 1000
    job = world.submit(**unlikely(Unlikely.TELL))
    world.passes(3)
    tell_curve(world, job, ceiling=0.6, to=600)
    assert world.phase(job) is JobPhase.RUNNING
    assert any("will probably not reach val_acc >= 0.9" in one.text for one in world.platform.why(job, ADMIN).entries)


def test_by_its_own_setting_it_gives_up_its_deadline(world: Platform) -> None:
    world.backend.total = 1000
    job = world.submit(**unlikely(Unlikely.BEST_EFFORT, within=5000))
    world.passes(3)
    assert math.isfinite(world.record(job).job.deadline)
    tell_curve(world, job, ceiling=0.6, to=600)
    assert world.record(job).job.goal == BestEffort()
    assert any("at best effort from now on" in one.text for one in world.platform.why(job, ADMIN).entries)


def test_by_its_own_setting_it_is_stopped(world: Platform) -> None:
    world.backend.total = 1000
    job = world.submit(**unlikely(Unlikely.STOP))
    world.passes(3)
    tell_curve(world, job, ceiling=0.6, to=600)
    detail = world.platform.job(job, ADMIN)
    assert detail.state == JobPhase.CANCELLED
    assert "stopped, as its job file asks: val_acc >= 0.9 will probably not be reached" in detail.reason


def test_people_see_how_far_the_metric_is_and_how_sure_its_end_is(world: Platform) -> None:
    world.backend.total = 1000
    job = world.submit(**until(work=1000, at_most=1))
    world.passes(3)
    shown = world.platform.job(job, ADMIN).until
    assert shown is not None
    assert "before it has told some values" in shown.words(str)
    tell_curve(world, job, ceiling=1.0, to=300)
    world.forecasts.refresh(now=True)
    shown = world.platform.job(job, ADMIN).until
    assert shown is not None
    assert (shown.rule, shown.best_step) == ("val_acc >= 0.9", 300)
    assert shown.words(str).startswith("by " if shown.safe_at else "")
    assert "nine of ten" in shown.words(str)
    band = world.platform.metrics(job, ADMIN).band
    assert band is not None
    assert band.target == 0.9
    assert band.steps[0] > 300
    assert all(low <= middle <= high for low, middle, high in zip(band.low, band.middle, band.high, strict=True))
    assert world.platform.job(world.submit(work=5), ADMIN).until is None
