"""Pausing, draining and taking devices away: jobs that cannot resume lose no work without their owner's consent."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.control.state.entries import Absence, NodeLeft
from penstock.core import InputError, Node, ReportKind, Verdict
from penstock.wire import (
    ConflictError,
    DrainRequest,
    JobPhase,
    LossError,
    PauseRequest,
    ResumeRequest,
    error_from,
    problem,
)
from tests.control.build import ADMIN, Platform, platform

AT_CHECKPOINT = PauseRequest(at_checkpoint=True)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Platform]:
    with platform(tmp_path, nodes=(Node(name="a", device_count=2), Node(name="b", device_count=2))) as world:
        world.backend.total = 1000
        yield world


def begun(world: Platform, name: str, **spec: object) -> str:
    job = world.submit(name=name, work=1000, at_least=2, at_most=2, **spec)
    world.passes(10)
    assert world.record(job).grant is not None
    return job


def reshape(world: Platform, node: Node) -> None:
    world.backend.nodes_there = tuple(node if each.name == node.name else each for each in world.backend.nodes_there)


def story(world: Platform, job: str) -> str:
    return str(world.journal.state.story(world.record(job)))


def test_a_pause_that_loses_work_says_so_and_changes_nothing(running: Platform) -> None:
    job, seq = begun(running, "plain", resumable=False), running.journal.seq
    with pytest.raises(LossError, match=r"cannot resume: 10s of work would be lost") as refused:
        running.commands.pause(job, ADMIN)
    assert isinstance(error_from(problem(refused.value)), LossError), "clients can tell it from other conflicts"
    with pytest.raises(ConflictError, match="told of no checkpoint to wait for"):
        running.commands.pause(job, ADMIN, AT_CHECKPOINT)
    with pytest.raises(InputError, match="anyway and at_checkpoint"):
        running.commands.pause(job, ADMIN, PauseRequest(anyway=True, at_checkpoint=True))
    assert running.journal.seq == seq
    running.commands.pause(job, ADMIN, PauseRequest(anyway=True))
    assert running.phase(job) is JobPhase.PAUSED
    assert "of work" in story(running, job)


def test_a_job_without_devices_loses_nothing(running: Platform) -> None:
    for name in "ab":
        begun(running, name, resumable=False)
    waiting = running.submit(work=10, at_least=4, resumable=False)
    running.passes(2)
    running.commands.pause(waiting, ADMIN)
    assert running.phase(waiting) is JobPhase.PAUSED


def test_a_job_is_paused_when_it_has_saved_the_next_time(running: Platform) -> None:
    job = begun(running, "saves")
    run = running.record(job).run_id
    running.backend.tell(run, ReportKind.CHECKPOINTED, step=5, path="/5")
    running.passes(2)
    running.commands.pause(job, ADMIN, AT_CHECKPOINT)
    running.passes(3)
    assert running.record(job).grant is not None
    assert "it is paused at its next checkpoint" in story(running, job)
    running.restart()
    running.passes(2)
    running.backend.tell(run, ReportKind.CHECKPOINTED, step=20, path="/20")
    running.passes(1)
    assert running.phase(job) is JobPhase.PAUSED
    running.commands.resume(job, ADMIN)
    running.passes(3)
    running.backend.tell(running.record(job).run_id, ReportKind.CHECKPOINTED, step=30, path="/30")
    running.passes(2)
    assert running.record(job).grant is not None, "it was asked for once"


def test_who_changes_their_mind_resumes_it_before_it_was_paused(running: Platform) -> None:
    job = begun(running, "saves")
    running.commands.pause(job, ADMIN, AT_CHECKPOINT)
    running.commands.resume(job, ADMIN)
    running.backend.tell(running.record(job).run_id, ReportKind.CHECKPOINTED, step=5, path="/5")
    running.passes(2)
    assert running.record(job).grant is not None
    assert "not to be paused any more" in story(running, job)
    with pytest.raises(ConflictError, match="is not paused"):
        running.commands.resume(job, ADMIN, ResumeRequest(from_scratch=True))


def test_a_job_that_loses_its_devices_while_it_waits_for_a_checkpoint_is_paused_then(running: Platform) -> None:
    job = begun(running, "saves")
    running.commands.pause(job, ADMIN, AT_CHECKPOINT)
    for node in "ab":
        running.commands.drain(node)
    running.passes(2)
    assert running.phase(job) is JobPhase.PAUSED


def test_an_array_is_paused_whole_or_not_at_all(running: Platform) -> None:
    array, _ = running.commands.submit_array({"work": 100, "at_most": 1, "resumable": False}, range(3), ADMIN)
    running.passes(3)
    with pytest.raises(LossError):
        running.commands.arrays.pause(array.id, ADMIN)
    assert all(running.record(job).grant is not None for job in array.job_ids)
    running.commands.arrays.pause(array.id, ADMIN, PauseRequest(anyway=True))
    assert {running.phase(job) for job in array.job_ids} == {JobPhase.PAUSED}


def test_a_drained_node_lets_jobs_that_cannot_resume_end(running: Platform) -> None:
    plain = begun(running, "plain", resumable=False)
    saves = begun(running, "saves")
    (node,) = {place.node for place in running.record(plain).places}
    (other,) = {"a", "b"} - {node}
    told = running.platform.drained_jobs(node, ADMIN)
    assert [(each.name, each.resumable, each.elsewhere) for each in told] == [("plain", False, True)]
    assert told[0].lost_s > 0
    assert "ends there first" in told[0].happens(now=False)
    assert "loses" in told[0].happens(now=True)
    (view,) = [each for each in running.platform.drain(node, ADMIN, DrainRequest(reason="fan")) if each.name == node]
    assert view.state == "draining"
    running.passes(3)
    assert running.record(plain).grant is not None
    assert running.record(saves).grant is not None
    running.platform.drain(other, ADMIN)
    running.passes(3)
    assert running.record(saves).grant is None
    assert f"node {other} was drained by ada; it saves its state and leaves" in story(running, saves)
    assert "all nodes that it can use are out of use: a is drain" in story(running, saves)
    assert f"node {node} was drained by ada (fan); it cannot resume" in story(running, plain)
    running.restart()
    assert running.journal.state.availability(node) == "draining"
    running.backend.finish(running.record(plain).run_id)
    running.passes(2)
    assert running.phase(plain) is JobPhase.FINISHED
    assert running.journal.state.availability(node) == "drained"
    running.commands.undrain(node)
    running.passes(3)
    assert running.record(saves).grant is not None
    running.journal.state.scheduler.validate()


def test_a_drain_may_stop_them_as_well(running: Platform) -> None:
    plain = begun(running, "plain", resumable=False)
    (node,) = {place.node for place in running.record(plain).places}
    running.platform.drain(node, ADMIN)
    running.platform.drain(node, ADMIN, DrainRequest(now=True))
    assert running.journal.state.availability(node) == "drained"
    assert f"node {node} was drained by ada; it begins again" in story(running, plain)
    assert "was lost" not in story(running, plain)
    with pytest.raises(InputError, match="unknown node 'c'"):
        running.platform.drained_jobs("c", ADMIN)


def test_a_drain_of_an_older_log_means_what_it_meant(running: Platform) -> None:
    plain = begun(running, "plain", resumable=False)
    (node,) = {place.node for place in running.record(plain).places}
    running.journal.record(NodeLeft(at=running.clock(), node=node, why=Absence.DRAINED))
    assert f"node {node} was drained; it begins again" in story(running, plain)


def test_a_node_with_more_devices_keeps_its_jobs(running: Platform) -> None:
    plain = begun(running, "plain", resumable=False)
    record = running.record(plain)
    (place, *_), run = record.places, record.run_id
    reshape(running, Node(name=place.node, device_count=4))
    running.passes(3)
    assert running.record(plain).run_id == run in running.backend.alive()
    assert "are lost" not in story(running, plain)
    state = running.journal.state
    assert running.record(plain).grant is not None
    assert state.places(running.record(plain).grant) == record.places  # type: ignore[arg-type]
    assert {node.name: len(node.devices) for node in running.platform.nodes(ADMIN)}[place.node] == 4
    assert len(running.platform.nodes(ADMIN)) == 2, "what the node was before is no node"
    running.restart()
    running.passes(2)
    assert running.record(plain).run_id == run
    running.journal.state.scheduler.validate()


def test_devices_that_a_node_does_not_have_any_more_leave_when_their_jobs_have_ended(running: Platform) -> None:
    first, second = begun(running, "first", resumable=False), begun(running, "second")
    (node,) = {place.node for place in running.record(first).places}
    reshape(running, Node(name=node, device_count=1))
    running.passes(3)
    assert running.record(first).grant is not None, "it holds a device that is to leave, and one that stays"
    assert "are lost" not in story(running, first)
    waiting = running.submit(work=5, at_least=1, at_most=1)
    running.commands.cancel(second, ADMIN)
    running.passes(3)
    assert {place.node for place in running.record(waiting).places} == {"a", "b"} - {node}
    running.backend.finish(running.record(first).run_id)
    running.passes(5)
    assert {each.name: len(each.devices) for each in running.platform.nodes(ADMIN)}[node] == 1
    assert running.journal.state.lost_devices == set()
    running.journal.state.scheduler.validate()


def test_a_run_goes_on_where_its_node_has_devices_of_another_kind(running: Platform) -> None:
    plain = begun(running, "plain", resumable=False)
    (node,) = {place.node for place in running.record(plain).places}
    run = running.record(plain).run_id
    reshape(running, Node(name=node, device_count=2, kind="h200"))
    running.restart()
    running.passes(3)
    assert running.record(plain).run_id == run in running.backend.alive()
    assert "are lost" not in story(running, plain)
    running.backend.finish(run)
    running.passes(5)
    assert {each.name: each.kind for each in running.platform.nodes(ADMIN)}[node] == "h200"
    assert len(running.platform.nodes(ADMIN)) == 2
    assert running.journal.state.lost_devices == set()
    running.journal.state.scheduler.validate()


def test_a_drain_that_endangers_a_promise_is_refused_unless_forced(running: Platform) -> None:
    wide = running.submit(name="wide", work=600, within=400, at_least=2, at_most=2)
    other = running.submit(name="other", work=600, within=400, at_least=2, at_most=2)
    running.passes(3)
    node, seq = running.record(wide).places[0].node, running.journal.seq
    assert {str(running.record(job).quote.verdict) for job in (wide, other)} == {"promised"}  # type: ignore[union-attr]
    for how in (None, DrainRequest(now=True)):
        with pytest.raises(ConflictError, match=r"would endanger 1 promise: j-.*--force"):
            running.platform.drain(node, ADMIN, how)
    assert (running.journal.seq, running.journal.state.availability(node)) == (seq, "up")
    running.platform.drain(node, ADMIN, DrainRequest(reason="fan", force=True))
    assert f"node {node} was drained by ada (fan)" in story(running, wide)
    assert " was lost" not in story(running, wide)


def test_a_drain_that_leaves_room_for_every_promise_is_taken(running: Platform) -> None:
    job = running.submit(name="one", work=100, within=900, at_least=2, at_most=2)
    running.passes(3)
    running.platform.drain(running.record(job).places[0].node, ADMIN)
    running.passes(3)
    assert running.record(job).quote.verdict is Verdict.PROMISED  # type: ignore[union-attr]


def test_steps_that_were_lost_are_not_counted(running: Platform) -> None:
    job = begun(running, "plain", resumable=False)
    progress = running.platform.job(job, ADMIN).progress
    assert progress is not None
    assert progress.step
    running.backend.saves = False
    held = running.record(job).places[0].node
    for node in ({"a": "b", "b": "a"}[held], held):
        running.commands.drain(node, DrainRequest(now=True))
    running.passes(2)
    lost = running.platform.job(job, ADMIN).progress
    assert lost is not None
    assert (lost.step, lost.remaining) == (0, lost.work)
