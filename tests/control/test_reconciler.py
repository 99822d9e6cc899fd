"""The loop: jobs start, move, finish, fail and come back, and the log tells all of it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.control.loop.actuator import Actuator
from penstock.control.loop.reconciler import _AFTER_TROUBLE_S, _APART_S
from penstock.control.state.entries import Absence, Configured
from penstock.core import DeviceSlot, InputError, Launch, Node, ReportKind, Verdict, Worker
from penstock.wire import DrainRequest, JobPhase, ResumeRequest
from penstock.wire.problems import ConflictError, MissingError
from tests.control.build import ADMIN, Platform, platform
from tests.control.fake_backend import Run


def kinds(world: Platform) -> list[str]:
    return [line.kind for line in world.journal.store.log.read()]


def test_a_job_runs_on_everything_that_is_free_and_finishes(world: Platform) -> None:
    job = world.submit(work=100)
    world.passes()
    assert world.phase(job) is JobPhase.RUNNING
    assert world.backend.width(f"{job}.1") == 4
    world.passes(30)
    assert world.phase(job) is JobPhase.FINISHED
    assert world.backend.alive() == []
    assert [call for call, _ in world.backend.calls] == ["launch", "forget"]
    assert kinds(world) == ["Configured", "Submitted", "Decided", "Launched", "RunFinished", "Decided"]


def test_a_second_job_shrinks_the_first_and_waits_for_its_devices(world: Platform) -> None:
    first = world.submit(work=100)
    world.passes()
    second = world.submit(work=100, within=60)
    world.passes(2)
    assert world.backend.width(f"{first}.1") + world.backend.width(f"{second}.1") <= 4
    calls = [call for call in world.backend.calls if call[0] != "forget"]
    assert calls == [("launch", f"{first}.1"), ("resize", f"{first}.1"), ("launch", f"{second}.1")]
    world.passes(120)
    assert {world.phase(first), world.phase(second)} == {JobPhase.FINISHED}


def test_nobody_is_started_on_a_device_before_the_one_on_it_has_left(world: Platform) -> None:
    world.backend.slow_to_leave = True
    first = world.submit(work=100)
    world.passes()
    world.submit(work=100, within=26, at_least=4)
    world.passes(3)
    assert world.backend.alive() == [f"{first}.1"]
    assert world.backend.calls[-1] == ("suspend", f"{first}.1")
    world.backend.leave(f"{first}.1")
    world.passes(2)
    assert len(world.backend.alive()) == 1
    assert world.backend.alive() != [f"{first}.1"]


def test_a_job_never_has_two_runs_alive_even_on_other_devices(world: Platform) -> None:
    world.backend.slow_to_leave = True
    job = world.submit(work=100, at_most=1)
    world.passes(2)
    world.commands.pause(job, ADMIN)
    world.passes(2)
    world.submit(work=100, at_most=1)
    world.commands.resume(job, ADMIN)
    world.passes(3)
    assert world.record(job).grant is not None
    assert not set(world.record(job).places) & world.record(job).footprints[f"{job}.1"], "the test needs other devices"
    assert world.backend.alive() == [f"{job}.1"]
    world.backend.leave(f"{job}.1")
    world.passes(3)
    assert f"{job}.2" in world.backend.alive()


def test_a_run_that_does_not_leave_in_time_is_stopped(world: Platform) -> None:
    world.backend.slow_to_leave = True
    world.backend.total = 1000
    job = world.submit(work=1000)
    world.passes()
    world.commands.pause(job, ADMIN)
    world.passes(40)
    assert ("stop", f"{job}.1") in world.backend.calls
    assert world.backend.alive() == []
    assert world.phase(job) is JobPhase.PAUSED
    assert world.record(job).failures == 0


def test_a_failed_run_is_tried_again_from_what_it_saved_after_a_growing_pause(world: Platform) -> None:
    job = world.submit(work=100, backoff=4.0)
    world.passes(5)
    world.backend.fail(f"{job}.1", save=True)
    world.passes(2)
    assert world.backend.alive() == []
    assert world.phase(job) is JobPhase.RUNNING
    while not world.backend.alive():
        world.clock.time += 1.0
        world.step()
    assert world.backend.alive() == [f"{job}.2"]
    assert world.backend.all_runs[f"{job}.2"].launch.attempt == 1
    world.backend.fail(f"{job}.2", tail=("boom again",))
    world.passes(6)
    assert world.backend.alive() == []
    world.passes(30)
    assert world.phase(job) is JobPhase.FINISHED
    assert world.record(job).failures == 2


def test_a_job_that_gets_nowhere_fails_for_good_and_keeps_its_last_lines(world: Platform) -> None:
    job = world.submit(work=100, retries=2)
    for attempt in (1, 2, 3):
        world.passes(6)
        world.backend.all_runs[f"{job}.{attempt}"].step = 0
        world.backend.fail(f"{job}.{attempt}", code=3, tail=("Traceback", f"attempt {attempt}"))
    world.passes(2)
    assert world.phase(job) is JobPhase.FAILED
    row = world.journal.store.jobs.find(job)
    assert row is not None
    assert (row.state, row.reason, row.failures) == ("failed", "exit", 3)
    assert row.tail == ["Traceback", "attempt 3"]
    assert "giving up" in str(world.journal.state.story(world.record(job)))


def test_a_script_that_ends_before_its_first_step_is_not_tried_again_unless_asked(world: Platform) -> None:
    hasty, patient = world.submit(work=100, at_most=1), world.submit(work=100, at_most=1, retries=3)
    world.passes(2)
    for job in (hasty, patient):
        world.backend.all_runs[f"{job}.1"].step = 0
        world.backend.fail(f"{job}.1", tail=("ModuleNotFoundError: No module named 'x'",))
    world.passes(2)
    assert (world.phase(hasty), world.record(hasty).failures) == (JobPhase.FAILED, 1)
    assert world.phase(patient) is JobPhase.RUNNING


def test_a_script_that_ends_twice_at_the_same_place_with_the_same_words_is_given_up(world: Platform) -> None:
    steady, other = world.submit(work=100, at_most=1), world.submit(work=100, at_most=1)
    world.passes(8)
    for attempt in (1, 2):
        while len(world.backend.alive()) < 2:
            world.clock.time += 0.5
            world.step()
        world.backend.fail(f"{steady}.{attempt}", tail=("OSError: could not write the model",), save=True)
        world.backend.fail(f"{other}.{attempt}", tail=(f"attempt {attempt}: connection lost",), save=True)
        world.step()
    assert (world.phase(steady), world.record(steady).failures) == (JobPhase.FAILED, 2)
    assert world.phase(other) is JobPhase.RUNNING


def test_failures_with_progress_in_between_do_not_use_up_the_retries(world: Platform) -> None:
    job = world.submit(work=100, retries=1, at_most=1)
    for attempt in range(1, 5):
        world.passes(8)
        world.backend.fail(f"{job}.{attempt}", save=True)
    world.passes(8)
    assert world.phase(job) is JobPhase.RUNNING
    assert world.record(job).failures == 4


def test_a_run_that_vanishes_counts_as_failed(world: Platform) -> None:
    job = world.submit(work=100)
    world.passes(7)
    world.backend.vanish(f"{job}.1")
    world.passes(3)
    assert "RunFailed" in kinds(world)
    assert world.record(job).reason == "lost"
    assert world.backend.alive() == [f"{job}.2"]


def test_what_cannot_be_launched_is_tried_again_and_then_failed_with_the_reason(world: Platform) -> None:
    world.backend.refuse["launch"] = InputError("there is no directory /nowhere")
    job = world.submit(work=100, retries=1)
    world.passes(5)
    assert world.phase(job) is JobPhase.FAILED
    assert world.record(job).reason == "launch"
    assert "there is no directory /nowhere" in world.record(job).tail[0]


def test_a_new_server_adopts_what_runs_and_touches_nothing(world: Platform) -> None:
    job = world.submit(work=100)
    world.passes(5)
    calls = list(world.backend.calls)
    world.restart()
    world.passes(3)
    assert world.backend.calls == calls
    assert world.phase(job) is JobPhase.RUNNING
    assert world.reconciler.run_figures[f"{job}.1"].step == 28
    world.passes(30)
    assert world.phase(job) is JobPhase.FINISHED


def test_what_ended_while_no_server_was_there_is_found_out_with_its_time(world: Platform) -> None:
    job = world.submit(work=100)
    world.passes(5)
    world.journal.store.close()
    world.clock.time += 40
    world.backend.runs()
    ended = world.clock.time
    world.clock.time += 3600
    world.restart()
    world.passes()
    assert world.phase(job) is JobPhase.FINISHED
    assert world.record(job).ended_at == ended


def test_runs_that_nobody_knows_are_stopped_and_forgotten(world: Platform) -> None:
    stray = Launch(
        run_id="stranger.1",
        job_id="stranger",
        command=("x",),
        workers=(Worker(id="w0", rank=0, node="node-0", slot=0),),
    )
    world.backend.all_runs["stranger.1"] = Run(stray, updated_at=world.clock())
    world.passes(2)
    assert world.backend.alive() == []
    assert "stranger.1" in world.backend.forgotten


def test_progress_is_logged_only_when_it_is_news(world: Platform) -> None:
    job = world.submit(work=100, at_most=1)
    world.passes(40)
    assert "Progressed" not in kinds(world)
    world.backend.all_runs[f"{job}.1"].step -= 15
    world.passes(10)
    assert kinds(world).count("Progressed") == 1
    assert world.journal.state.remaining(world.record(job), world.clock()) == pytest.approx(65, abs=2)
    assert world.backend.reports(f"{job}.1", 0)[-1].seq > 50


def test_a_run_that_lost_a_worker_gets_a_new_one(world: Platform) -> None:
    job = world.submit(work=100)
    world.passes(2)
    run = world.backend.all_runs[f"{job}.1"]
    lost, *left = run.launch.workers
    generation = run.launch.generation + 1
    ranked = tuple(replace(worker, rank=rank) for rank, worker in enumerate(left))
    run.launch = replace(run.launch, workers=ranked, generation=generation)
    world.backend.tell(f"{job}.1", ReportKind.WORKER_EXITED, worker=lost.id, signal=9)
    world.backend.tell(f"{job}.1", ReportKind.RESIZED, generation=generation, width=3)
    world.passes(2)
    workers = run.launch.workers
    assert len(workers) == 4
    assert lost.id not in {worker.id for worker in workers}
    assert [worker.id for worker in workers[:3]] == [worker.id for worker in left]
    assert run.launch.generation == generation + 1
    assert "replaced" in str(world.journal.state.story(world.record(job)))


def test_a_paused_job_saves_its_state_and_goes_on_from_there(world: Platform) -> None:
    job = world.submit(work=100)
    world.passes(5)
    world.commands.pause(job, ADMIN)
    world.commands.pause(job, ADMIN)
    world.passes()
    assert world.phase(job) is JobPhase.PAUSED
    assert world.backend.alive() == []
    saved = world.backend.saved[job]
    world.passes(50)
    world.commands.resume(job, ADMIN)
    world.passes()
    assert world.backend.all_runs[f"{job}.2"].step == saved > 0
    assert world.journal.state.remaining(world.record(job), world.clock()) == pytest.approx(100 - saved)
    world.passes(30)
    assert world.phase(job) is JobPhase.FINISHED
    story = str(world.journal.state.story(world.record(job)))
    assert [story.count(word) for word in ("submitted:", "paused by ada", "resumed by ada")] == [1, 1, 1]


def test_a_paused_job_whose_deadline_became_impossible_stays_paused(world: Platform) -> None:
    job = world.submit(work=100, within=40)
    world.commands.pause(job, ADMIN)
    world.passes(30)
    with pytest.raises(ConflictError, match="would be refused"):
        world.commands.resume(job, ADMIN)
    assert world.phase(job) is JobPhase.PAUSED
    world.passes(30)
    with pytest.raises(ConflictError, match="passed while it was paused"):
        world.commands.resume(job, ADMIN)
    world.commands.resume(job, ADMIN, ResumeRequest(deadline="2h"))
    quote = world.record(job).quote
    assert quote is not None
    assert quote.verdict is Verdict.PROMISED


def test_a_cancelled_job_is_stopped_and_stays_cancelled(world: Platform) -> None:
    job = world.submit(work=100)
    world.passes(2)
    world.commands.cancel(job, ADMIN)
    world.commands.cancel(job, ADMIN)
    world.passes(2)
    assert world.backend.alive() == []
    assert ("stop", f"{job}.1") in world.backend.calls
    with pytest.raises(ConflictError, match="cancelled and cannot be paused"):
        world.commands.pause(job, ADMIN)
    with pytest.raises(MissingError, match="no job"):
        world.commands.cancel("j-nothing", ADMIN)


def test_a_job_that_finishes_while_it_is_sent_away_is_finished(world: Platform) -> None:
    world.backend.slow_to_leave = True
    job = world.submit(work=100)
    world.passes(24)
    world.commands.pause(job, ADMIN)
    world.passes(4)
    assert world.phase(job) is JobPhase.FINISHED


def test_a_drained_node_is_left_and_stays_empty_until_undrained(tmp_path: Path) -> None:
    nodes = (Node(name="a", device_count=2), Node(name="b", device_count=2))
    with platform(tmp_path, nodes=nodes) as world:
        job = world.submit(work=1000)
        world.backend.total = 1000
        world.passes(3)
        world.commands.drain("a")
        world.commands.drain("a", DrainRequest(reason="its fan is loud"))
        world.passes(3)
        grant = world.record(job).grant
        assert grant is not None
        assert set(grant.devices) == {2, 3}
        world.restart()
        world.passes(3)
        assert world.journal.state.absent == {"a": Absence.DRAINED}
        assert world.journal.state.drained_because == {"a": "its fan is loud"}
        world.commands.undrain("a")
        assert world.journal.state.drained_because == {}
        world.passes(3)
        assert world.backend.width(world.record(job).run_id) == 4
        with pytest.raises(InputError, match="unknown node 'c'"):
            world.commands.drain("c")


def test_nodes_that_go_and_come_are_noticed(tmp_path: Path) -> None:
    nodes = (Node(name="a", device_count=2), Node(name="b", device_count=2))
    with platform(tmp_path, nodes=nodes) as world:
        job = world.submit(work=1000)
        world.backend.total = 1000
        world.passes(3)
        world.backend.nodes_there = nodes[:1]
        world.passes(3)
        assert world.journal.state.absent == {"b": Absence.LOST}
        assert world.backend.width(world.record(job).run_id) == 2
        world.backend.nodes_there = (*nodes, Node(name="c", device_count=2))
        world.passes(4)
        assert world.journal.state.scheduler.cluster.device_count == 6
        assert world.journal.state.absent == {}


def test_a_server_with_another_policy_keeps_every_run_and_says_what_becomes_of_promises(world: Platform) -> None:
    job = world.submit(work=400, within=4000)
    world.backend.total = 400
    paused = world.submit(work=100)
    world.commands.pause(paused, ADMIN)
    world.passes(5)
    world.restart(policy="fifo")
    world.passes(3)
    assert world.journal.state.scheduler.policy.name == "fifo"
    assert world.backend.alive() == [f"{job}.1"]
    assert world.phase(paused) is JobPhase.PAUSED
    story = str(world.journal.state.story(world.record(job)))
    assert "set up anew: it runs under fifo" in story
    assert "its promise is withdrawn: the platform now runs under fifo" in story
    quote = world.record(job).quote
    assert quote is not None
    assert quote.verdict is Verdict.BEST_EFFORT
    assert world.record(job).stint == 1
    assert world.journal.state.scheduler.policy.name == "fifo"
    world.passes(500)
    assert world.phase(job) is JobPhase.FINISHED
    world.restart(policy="deadline")
    world.commands.resume(paused, ADMIN)
    world.passes(120)
    assert world.phase(paused) is JobPhase.FINISHED
    assert kinds(world).count("Configured") == 3


def test_a_promise_outlives_a_server_with_another_slot(world: Platform) -> None:
    job = world.submit(work=100, within=4000)
    world.passes(3)
    promised = world.record(job).quote
    assert promised is not None
    assert promised.verdict is Verdict.PROMISED
    world.reconciler.begin(Configured(at=0.0, nodes=world.nodes, policy="deadline", slot=5.0))
    world.passes(3)
    assert world.record(job).quote == promised
    assert world.record(job).job.hard
    assert world.journal.state.scheduler.slot == 5.0


def test_a_machine_that_came_back_different_keeps_its_jobs(world: Platform) -> None:
    world.submit(work=100)
    world.passes(3)
    world.backend.nodes_there = (Node(name="node-0", device_count=2),)
    world.restart()
    world.passes(3)
    assert [world.backend.width(run) for run in world.backend.alive()] == [2]


def test_a_clock_that_goes_back_does_not_disturb_the_order(world: Platform) -> None:
    job = world.submit(work=100)
    world.passes(5)
    world.clock.time -= 3600
    other = world.submit(work=100)
    for _ in range(5):
        world.reconciler.step()
    times = [line.at for line in world.journal.store.log.read()]
    assert times == sorted(times)
    world.clock.time += 3600
    world.passes(100)
    assert {world.phase(job), world.phase(other)} == {JobPhase.FINISHED}


def test_a_pass_that_fails_is_reported_and_the_next_one_goes_on(world: Platform) -> None:
    import threading

    waits: list[float] = []
    nudged: list[bool] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0.0)
            return self.is_set()

    stop = Stop()

    def step() -> None:
        nudged.append(world.reconciler._nudged.is_set())
        if len(nudged) == 1:
            world.reconciler.nudge()
            raise OSError("the disk is full")
        assert world.reconciler.trouble == "OSError: the disk is full"
        stop.set()

    world.reconciler.step = step  # type: ignore[method-assign]
    world.reconciler.run(stop, every_s=0.01)
    assert (nudged, world.reconciler.trouble) == ([False, False], ""), "a nudge counts for one pass"
    assert waits[0] == _AFTER_TROUBLE_S > _APART_S >= waits[1], "only a failed pass is followed by the longer pause"


def test_a_worker_that_was_told_to_go_keeps_its_name_for_the_next_world(world: Platform) -> None:
    """A restart ends everyone and starts those who stay under their names; only so can the next change be in place."""
    job = world.submit(work=100)
    world.passes()
    workers = world.record(job).workers
    said = {"worker": workers[0].id, "code": 143, "signal": 15}
    world.backend.tell(f"{job}.1", ReportKind.WORKER_EXITED, reason="asked", **said)
    world.passes()
    assert world.record(job).workers == workers
    world.backend.tell(f"{job}.1", ReportKind.WORKER_EXITED, reason="died", **said)
    world.passes()
    assert world.record(job).workers == workers[1:]


def test_why_tells_of_a_checkpoint_that_could_not_be_saved(world: Platform) -> None:
    job = world.submit(work=100)
    world.passes(3)
    world.backend.tell(f"{job}.1", ReportKind.CHECKPOINT_FAILED, step=40, reason="No space left on device")
    world.passes()
    said = [note.text for note in world.record(job).notes]
    assert "its state could not be saved at step 40: No space left on device; it goes on" in said
    assert world.record(job).grant is not None


def test_a_device_that_fails_alone_is_left_out_until_it_works_again(world: Platform) -> None:
    world.backend.total = 1000
    job = world.submit(work=1000)
    world.passes(3)
    world.backend.broken[DeviceSlot("node-0", 2)] = "fell off the bus"
    world.passes(4)
    grant = world.record(job).grant
    assert grant is not None
    assert 2 not in grant.devices
    assert "device 2 of node-0 was lost" in str(world.journal.state.story(world.record(job)))
    world.restart()
    world.passes(3)
    assert kinds(world).count("DeviceLeft") == 1
    world.backend.broken.clear()
    world.passes(4)
    assert kinds(world).count("DeviceCame") == 1
    assert world.backend.width(world.record(job).run_id) == 4


def test_a_drained_node_that_comes_back_with_other_devices_stays_drained(tmp_path: Path) -> None:
    nodes = (Node(name="a", device_count=2), Node(name="b", device_count=2))
    with platform(tmp_path, nodes=nodes) as world:
        world.backend.total = 1000
        job = world.submit(work=1000)
        world.passes(3)
        world.commands.drain("a")
        world.passes(3)
        world.backend.nodes_there = (Node(name="a", device_count=4), nodes[1])
        world.passes(3)
        assert world.backend.width(world.record(job).run_id) == 2
        assert kinds(world).count("NodeReshaped") == 1
        world.commands.undrain("a")
        world.passes(3)
        assert world.backend.width(world.record(job).run_id) == 4


def test_a_world_that_stands_as_it_should_is_not_compared_again_until_something_happens(world: Platform) -> None:
    world.submit(work=100)
    world.passes(3)
    compared = []
    shaped = world.reconciler._actuator.work
    world.reconciler._actuator.work = lambda *seen: (compared.append(1), shaped(*seen))  # type: ignore[method-assign]
    world.passes(3)
    quiet = len(compared)
    world.submit(work=10)
    world.passes(1)
    assert (quiet, len(compared) > quiet) == (0, True)


def test_what_a_run_was_told_once_is_not_told_again_unless_it_failed() -> None:
    told: list[str] = []
    outcomes = iter([OSError("lost"), None])

    class Calls:
        def begin(self, _: str, call: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
            call()
            done(next(outcomes))

    actuator: Any = SimpleNamespace(_said=set(), _calls=Calls(), _took=lambda _what, _run, error: error is None)
    for run in ("a.1", "a.1", "a.1"):
        Actuator._once(actuator, "suspend", run, lambda: told.append("suspend"))
    assert told == ["suspend", "suspend"], "again after a failure, and then no more"
