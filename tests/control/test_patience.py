"""What is nobody's fault is charged to nobody: a shortage of the machine, a run that never began, a slow call."""

import threading

from penstock.backends import ShortageError
from penstock.control.loop.backend_calls import BackendCalls
from penstock.control.state.entries import RunFailed
from penstock.wire import JobPhase
from tests.control.build import Platform


def texts(world: Platform, job_id: str) -> list[str]:
    return [note.text for note in world.journal.state.story(world.record(job_id)).entries]


def test_a_launch_waits_while_the_machine_is_short_of_something(world: Platform) -> None:
    world.backend.refuse["launch"] = ShortageError("the machine is short of something: Too many open files")
    job_id = world.submit(work=100, retries=0)
    world.passes(40)
    assert world.phase(job_id) is JobPhase.RUNNING
    assert world.record(job_id).failures == 0
    assert any(job_id in notice and "Too many open files" in notice for notice in world.reconciler.notices)
    assert sum("cannot be started now and waits" in text for text in texts(world, job_id)) == 1
    del world.backend.refuse["launch"]
    world.passes(150)
    assert world.phase(job_id) is JobPhase.FINISHED
    assert world.record(job_id).failures == 0
    assert world.reconciler.notices == []


def test_a_run_that_ended_before_any_worker_started_is_started_again(world: Platform) -> None:
    job_id = world.submit(work=100, retries=0)
    world.passes(2)
    run = world.backend.all_runs[f"{job_id}.1"]
    run.reports[1:] = []
    run.alive = False
    world.passes(60)
    assert world.phase(job_id) is JobPhase.FINISHED
    assert world.record(job_id).failures == 0
    assert "its run ended before any worker had started; it is started again" in texts(world, job_id)


def test_a_run_that_never_gets_so_far_is_given_up_in_the_end(world: Platform) -> None:
    job_id = world.submit(work=100, retries=0)
    for _ in range(200):
        world.passes(1)
        for run in world.backend.all_runs.values():
            run.reports[1:] = []
            run.alive = False
    assert world.phase(job_id) is JobPhase.FAILED
    assert world.record(job_id).reason == "lost"


def test_a_run_that_is_not_listed_any_more_is_not_started_over_and_over(world: Platform) -> None:
    job_id = world.submit(work=100, retries=0)
    world.passes(3)
    world.backend.vanish(f"{job_id}.1")
    world.backend.forgotten.add(f"{job_id}.1")
    world.passes(30)
    assert world.phase(job_id) is JobPhase.FAILED
    assert [call for call in world.backend.calls if call[0] == "launch"] == [("launch", f"{job_id}.1")]
    failed = world.record(job_id)
    assert (failed.reason, failed.failures) == ("vanished", 1)
    assert "deleted" in failed.tail[0]


def test_a_slow_call_holds_up_its_own_run_only() -> None:
    gate, nudged, heard = threading.Event(), threading.Event(), []
    calls = BackendCalls(2, nudged.set)
    calls.begin("slow", lambda: (gate.wait(30), None)[1], lambda error: heard.append(("slow", error)))
    calls.begin("quick", lambda: None, lambda error: heard.append(("quick", error)))
    calls.finish(0.2)
    assert heard == [("quick", None)]
    assert calls.is_busy("slow")
    calls.begin("slow", lambda: heard.append("twice"), lambda _: None)
    gate.set()
    assert nudged.wait(10)
    calls.finish(10.0)
    assert heard == [("quick", None), ("slow", None)]


def test_no_failure_is_written_for_a_shortage(world: Platform) -> None:
    world.backend.refuse["launch"] = ShortageError("no processes left")
    world.submit(work=100)
    world.passes(20)
    assert RunFailed.__name__ not in [line.kind for line in world.journal.store.log.read()]
