"""What the scheduler or a policy fails on stops nothing: a submission is turned away, a fact is kept, others go on."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.control.state.journal import SetAsideError
from penstock.control.state.state_data import state_to_data
from penstock.core import InvariantError, JobCancelled, JobSubmitted
from penstock.policies import Allocation, KindView
from penstock.policies.deadline import DeadlinePolicy
from penstock.scheduler.state import EVENTS, State
from penstock.wire import JobPhase
from tests.control.build import ADMIN, Platform, platform
from tests.control.test_together import at_once


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Platform]:
    """A platform whose policy has a fault: it cannot stand thirteen iterations."""
    sound = DeadlinePolicy.allocate

    def faulty(self: DeadlinePolicy, view: KindView) -> Allocation:
        if any(job.work.iterations == 13.0 for job in view.jobs):
            raise InvariantError("thirteen devices granted, four exist")
        return sound(self, view)

    monkeypatch.setattr(DeadlinePolicy, "allocate", faulty)
    with platform(tmp_path) as built:
        yield built


def kinds(world: Platform) -> list[str]:
    return [line.kind for line in world.journal.store.log.read()]


def test_it_is_said_and_everything_else_goes_on(world: Platform, caplog: pytest.LogCaptureFixture) -> None:
    good = world.submit(work=100)
    world.passes(2)
    before = state_to_data(world.journal.state)
    with caplog.at_level(logging.ERROR), pytest.raises(SetAsideError, match=r"Submitted \(event 5\) was set aside"):
        world.submit(work=13)
    assert "thirteen devices granted" in caplog.text
    assert kinds(world) == ["Configured", "Submitted", "Decided", "Launched", "Quarantined"]
    assert state_to_data(world.journal.state) == before | {"at": world.journal.state.at}
    assert list(world.journal.state.jobs) == [good]
    world.passes(40)
    assert world.phase(good) is JobPhase.FINISHED


def test_the_next_start_passes_over_it(world: Platform) -> None:
    good = world.submit(work=100)
    with pytest.raises(SetAsideError):
        world.submit(work=13)
    world.restart()
    assert list(world.journal.state.jobs) == [good]
    assert kinds(world).count("Quarantined") == 1
    world.restart()
    world.passes(40)
    assert world.phase(good) is JobPhase.FINISHED
    assert kinds(world).count("Quarantined") == 1


def test_of_several_at_once_only_the_one_that_cannot_be_taken_is_turned_away(world: Platform) -> None:
    answers = at_once(world, *(lambda n=n: world.commands.submit({"work": n}, ADMIN) for n in (100, 13, 200)))
    assert [isinstance(answer, SetAsideError) for answer in answers] == [False, True, False]
    assert {record.work for record in world.journal.state.jobs.values()} == {100.0, 200.0}
    before = state_to_data(world.journal.state)
    world.restart()
    assert state_to_data(world.journal.state) == before


def test_a_fact_on_which_the_policy_fails_is_recorded_and_decided_upon_later(
    world: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = world.submit(work=100, at_least=4), world.submit(work=100)
    world.passes(2)
    sound = DeadlinePolicy.allocate
    monkeypatch.setattr(DeadlinePolicy, "allocate", lambda *_: 1 / 0)
    world.commands.cancel(first, ADMIN)
    assert world.phase(first) is JobPhase.CANCELLED
    assert kinds(world)[-2:] == ["Cancelled", "DecisionFailed"]
    assert "ZeroDivisionError" in world.journal.trouble
    world.passes(20)
    assert kinds(world).count("DecisionFailed") == 5, "tried again, less and less often"
    before = state_to_data(world.journal.state)
    world.restart()
    assert state_to_data(world.journal.state) == before
    monkeypatch.setattr(DeadlinePolicy, "allocate", sound)
    world.passes(60)
    assert world.journal.trouble == ""
    assert world.phase(second) is JobPhase.FINISHED


def test_a_server_that_died_over_it_starts_again_without_it(world: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry is in the log, and nobody had the time to say that it is bad."""
    good = world.submit(work=100)
    told = world.journal.state.jobs[good].submission
    bad = replace(told, at=world.journal.now(), job=replace(told.job, id="bad"))
    world.journal.store.log.append(world.journal._line(bad))
    sound = EVENTS[JobSubmitted]

    def fail(state: State, event: JobSubmitted) -> None:
        assert event.job.id != "bad"
        sound(state, event)

    monkeypatch.setitem(EVENTS, JobSubmitted, fail)
    world.restart()
    assert list(world.journal.state.jobs) == [good]
    assert kinds(world)[-1] == "Quarantined"
    world.restart()
    assert kinds(world).count("Quarantined") == 1


def test_a_job_that_it_happened_to_says_so(world: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    job = world.submit(work=100)
    world.passes(2)

    def fail(*_: object) -> None:
        raise ZeroDivisionError("float division by zero")

    monkeypatch.setitem(EVENTS, JobCancelled, fail)
    world.restart()
    with pytest.raises(SetAsideError):
        world.commands.cancel(job, ADMIN)
    assert "Cancelled (event 5) was set aside: ZeroDivisionError" in str(world.journal.state.story(world.record(job)))
    world.passes(40)
    assert world.phase(job) is JobPhase.FINISHED
