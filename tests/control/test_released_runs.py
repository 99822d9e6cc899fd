"""Evaluations that have given their devices back: others run there, metrics go on, nothing is lost or done twice."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.control.loop.report_reader import ReportReader
from penstock.control.state.evaluations import evaluation_id
from penstock.control.state.platform_state import PlatformState, replay
from penstock.control.state.reading import readable
from penstock.control.state.state_data import state_from_data, state_to_data
from penstock.control.state.store import Line
from penstock.core import MetricSeries, Node, ReportKind
from penstock.wire import ConflictError, JobPhase
from tests.control.build import ADMIN, Platform, platform
from tests.control.test_dependencies import until
from tests.control.test_evaluations import save, steps, submissions, told, train

_TWO_DEVICES = (Node(name="node-0", device_count=2),)


@pytest.fixture
def small(tmp_path: Path) -> Any:
    with platform(tmp_path, nodes=_TWO_DEVICES) as built:
        yield built


def released(world: Platform, step: int = 10, **evaluate: Any) -> tuple[str, str]:
    """A job that trains, and an evaluation of it whose metrics are computed now."""
    job_id = train(world, metric=True, **evaluate)
    return job_id, release(world, job_id, step)


def release(world: Platform, job_id: str, step: int) -> str:
    save(world, job_id, step)
    evaluation = evaluation_id(job_id, step)
    assert world.phase(evaluation) is JobPhase.RUNNING
    world.backend.release(f"{evaluation}.1")
    world.passes()
    assert world.phase(evaluation) is JobPhase.FINISHING
    return evaluation


def find(world: Platform, run_id: str, accuracy: float) -> None:
    series = MetricSeries("arc/accuracy")
    series.add(1, world.clock(), accuracy)
    world.backend.metric_series[run_id] = [series]
    world.backend.finish(run_id)
    world.passes()


def kinds(world: Platform, job_id: str) -> list[str]:
    lines: list[Line] = world.journal.store.log.page(job_id=job_id, limit=1000)
    return [line.kind for line in lines]


def test_another_job_runs_on_its_device_while_its_metrics_are_computed(small: Platform) -> None:
    job_id = train(small, metric=True, priority=90)
    save(small, job_id, 10)
    waiting = small.submit(work=1000, at_most=1)
    small.passes()
    assert small.phase(waiting) is JobPhase.PENDING
    evaluation = evaluation_id(job_id, 10)
    held = small.record(evaluation).places
    small.backend.release(f"{evaluation}.1")
    small.passes()
    assert small.phase(waiting) is JobPhase.RUNNING
    assert small.record(waiting).places == held
    assert f"{waiting}.1" in small.backend.alive()
    assert f"{evaluation}.1" in small.backend.alive()
    assert small.platform.job(evaluation, ADMIN).devices == []
    assert "gave its device back: what is left of it needs none" in told(small, evaluation)
    assert "all its shards are done; its metrics are computed without a device" in told(small, evaluation)
    story = small.platform.why(evaluation, ADMIN)
    assert story.now == "finishing: it has given its devices back, and what is left of it needs none"
    find(small, f"{evaluation}.1", 0.5)
    assert small.phase(evaluation) is JobPhase.FINISHED
    assert small.platform.metrics(job_id, ADMIN)["eval/arc/accuracy"].values == [0.5]


def test_device_time_ends_with_the_release(world: Platform) -> None:
    job_id = train(world, metric=True)
    save(world, job_id, 10)
    world.passes(5)
    evaluation = evaluation_id(job_id, 10)
    world.backend.release(f"{evaluation}.1")
    world.passes(1)
    world.passes(30)
    find(world, f"{evaluation}.1", 0.5)
    [stint] = world.platform.job(evaluation, ADMIN).history
    assert stint.until is not None
    assert 4.0 <= (stint.until - stint.since).total_seconds() <= 8.0, "thirty seconds of metrics are no device's"


@pytest.mark.parametrize("when", ["before it is known", "meanwhile", "at the end"])
def test_a_server_that_is_killed_loses_nothing_and_tells_once(world: Platform, when: str) -> None:
    job_id = train(world, metric=True)
    save(world, job_id, 10)
    evaluation = evaluation_id(job_id, 10)
    world.backend.release(f"{evaluation}.1")
    if when == "before it is known":
        world.restart()
    world.passes(3)
    if when == "meanwhile":
        world.restart()
        world.passes(3)
        assert world.phase(evaluation) is JobPhase.FINISHING
    assert f"{evaluation}.1" in world.backend.alive()
    series = MetricSeries("arc/accuracy")
    series.add(1, world.clock(), 0.5)
    world.backend.metric_series[f"{evaluation}.1"] = [series]
    world.backend.finish(f"{evaluation}.1")
    if when == "at the end":
        world.restart()
    world.passes(3)
    assert world.phase(evaluation) is JobPhase.FINISHED
    assert kinds(world, evaluation).count("RunReleased") == kinds(world, evaluation).count("Evaluated") == 1
    assert world.backend.calls.count(("launch", f"{evaluation}.1")) == 1
    assert {call for call in world.backend.calls if evaluation in call[1]} == {
        ("launch", f"{evaluation}.1"), ("forget", f"{evaluation}.1")
    }  # fmt: skip
    assert world.platform.metrics(job_id, ADMIN)["eval/arc/accuracy"].values == [0.5]


@pytest.mark.parametrize("how", ["its metric step fails", "its agent dies"])
def test_what_fails_then_is_tried_again_without_devices(small: Platform, how: str) -> None:
    job_id, evaluation = released(small)
    other = small.submit(work=1000, at_most=1)
    small.passes()
    if how == "its agent dies":
        small.backend.vanish(f"{evaluation}.1")
    else:
        small.backend.fail(f"{evaluation}.1", tail=("the metric step of arc ended with code 1",))
    small.passes(10)
    assert small.phase(evaluation) is JobPhase.FINISHING
    again = small.backend.all_runs[f"{evaluation}.2"].launch
    assert again.workers == ()
    assert again.cpu_worker is not None
    assert (again.cpu_worker.node, again.cpu_worker.command) == ("node-0", ("score",))
    assert small.phase(other) is JobPhase.RUNNING, "whoever got its device keeps it"
    find(small, f"{evaluation}.2", 0.5)
    assert steps(small, job_id) == [(10, "finished")]
    assert small.platform.metrics(job_id, ADMIN)["eval/arc/accuracy"].values == [0.5]


def test_one_that_keeps_failing_is_given_up_and_told(world: Platform) -> None:
    job_id, evaluation = released(world)
    for stint in range(1, 5):
        run_id = f"{evaluation}.{stint}"
        until_alive(world, run_id)
        world.backend.fail(run_id, tail=(f"no answers, says attempt {stint}",))
        world.passes()
    assert world.phase(evaluation) is JobPhase.FAILED
    assert "the evaluation of step 10 failed: exit" in told(world, job_id)
    assert world.record(evaluation).tail == ("no answers, says attempt 4",)
    world.passes(5)
    assert not [run for run in world.backend.alive() if run.startswith(evaluation)]


def until_alive(world: Platform, run_id: str) -> None:
    for _ in range(100):
        if run_id in world.backend.alive():
            return
        world.passes(1)
    raise AssertionError(f"{run_id} never came")


@pytest.mark.parametrize("whose", ["its own", "its job's"])
def test_cancelled_meanwhile_its_run_is_stopped(world: Platform, whose: str) -> None:
    job_id, evaluation = released(world)
    world.commands.cancel(evaluation if whose == "its own" else job_id, ADMIN)
    world.passes()
    assert world.phase(evaluation) is JobPhase.CANCELLED
    assert ("stop", f"{evaluation}.1") in world.backend.calls
    assert f"{evaluation}.1" not in world.backend.alive()


def test_it_can_be_neither_paused_nor_edited(world: Platform) -> None:
    _, evaluation = released(world)
    with pytest.raises(ConflictError, match="has given its devices back, is finishing and cannot be paused"):
        world.commands.pause(evaluation, ADMIN)
    with pytest.raises(ConflictError, match="cannot be edited"):
        world.commands.edit(evaluation, ADMIN, {"priority": 3})
    assert world.phase(evaluation) is JobPhase.FINISHING


def test_the_next_checkpoint_gets_the_device_and_metrics_of_two_go_on_at_most(world: Platform) -> None:
    job_id, first = released(world)
    second = release(world, job_id, 20)
    assert {world.phase(first), world.phase(second)} == {JobPhase.FINISHING}, "it does not give way to a newer one"
    save(world, job_id, 30)
    save(world, job_id, 40)
    assert submissions(world) == [first, second]
    find(world, f"{second}.1", 0.7)
    third = evaluation_id(job_id, 40)
    assert world.phase(third) is JobPhase.RUNNING
    find(world, f"{first}.1", 0.5)
    assert world.platform.metrics(job_id, ADMIN)["eval/arc/accuracy"].steps == [10, 20]


def test_one_whose_devices_were_just_taken_away_needs_none_any_more(world: Platform) -> None:
    """It was told to go before anybody knew that it was done."""
    job_id = train(world, metric=True)
    save(world, job_id, 10)
    evaluation = evaluation_id(job_id, 10)
    world.backend.slow_to_leave = True
    world.submit(work=40, at_least=4, at_most=4, within=70)
    until(world, JobPhase.SUSPENDED, evaluation)
    world.backend.release(f"{evaluation}.1")
    world.backend.leave(f"{evaluation}.1")
    world.passes(5)
    assert world.phase(evaluation) is JobPhase.FINISHING
    assert world.backend.all_runs[f"{evaluation}.2"].launch.workers == ()
    find(world, f"{evaluation}.2", 0.5)
    assert world.phase(evaluation) is JobPhase.FINISHED


def test_a_paused_one_looks_what_is_left_when_it_is_resumed(world: Platform) -> None:
    job_id = train(world, metric=True)
    save(world, job_id, 10)
    evaluation = evaluation_id(job_id, 10)
    world.commands.pause(evaluation, ADMIN)
    world.backend.release(f"{evaluation}.1")
    world.passes()
    assert world.phase(evaluation) is JobPhase.PAUSED
    world.commands.resume(evaluation, ADMIN)
    until_alive(world, f"{evaluation}.2")
    assert world.backend.all_runs[f"{evaluation}.2"].launch.workers, "on a device, where it finds nothing left to do"
    world.backend.release(f"{evaluation}.2")
    world.passes()
    assert world.phase(evaluation) is JobPhase.FINISHING


def test_a_lost_node_is_not_where_it_goes_on(tmp_path: Path) -> None:
    nodes = (Node(name="node-0", device_count=1), Node(name="node-1", device_count=2))
    with platform(tmp_path, nodes=nodes) as world:
        _, evaluation = released(world)
        lost = world.record(evaluation).cpu_node
        world.backend.nodes_there = tuple(node for node in nodes if node.name != lost)
        world.passes(5)
        world.backend.vanish(f"{evaluation}.1")
        until_alive(world, f"{evaluation}.2")
        again = world.backend.all_runs[f"{evaluation}.2"].launch.cpu_worker
        assert again is not None
        assert again.node != lost


def test_a_report_of_an_earlier_run_releases_nothing(world: Platform) -> None:
    job_id = train(world, metric=True)
    save(world, job_id, 10)
    record = world.record(evaluation_id(job_id, 10))
    world.backend.tell(record.run_id, ReportKind.RELEASED)
    report = world.backend.all_runs[record.run_id].reports[-1]
    with world.journal.reading() as state:
        assert ReportReader().entries(report, record, state, world.clock())
        assert not ReportReader().entries(replace(report, run_id=f"{record.id}.7"), record, state, world.clock())


def test_the_log_and_a_snapshot_tell_the_same(world: Platform) -> None:
    _, evaluation = released(world)
    again: PlatformState = replay(readable(world.journal.store.log.page(limit=10_000)))
    assert state_to_data(again) == state_to_data(world.journal.state)
    copied = state_from_data(state_to_data(again))
    assert state_to_data(copied) == state_to_data(again)
    assert copied.wanted()[f"{evaluation}.1"].workers == ()
