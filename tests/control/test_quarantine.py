"""An entry on which the scheduler fails is set aside, loudly; it stops nothing, now or at the next start."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.control.state.entries import Submitted
from penstock.control.state.journal import SetAsideError
from penstock.core import InvariantError, JobCancelled, Work
from penstock.policies import Allocation, KindView
from penstock.policies.deadline import DeadlinePolicy
from penstock.scheduler.state import EVENTS
from penstock.wire import JobPhase
from tests.control.build import ADMIN, Platform, platform


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
    with caplog.at_level(logging.ERROR), pytest.raises(SetAsideError, match=r"Submitted \(event 4\) was set aside"):
        world.submit(work=13)
    assert "thirteen devices granted" in caplog.text
    assert kinds(world)[-2:] == ["Submitted", "Quarantined"]
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


def test_a_server_that_died_over_it_starts_again_without_it(world: Platform) -> None:
    """The entry is in the log, and nobody had the time to say that it is bad."""
    good = world.submit(work=100)
    journal = world.journal
    told = journal.state.jobs[good].submission
    bad = Submitted(
        at=journal.now(),
        job=replace(told.job, id="bad", work=Work(13.0)),
        name="bad",
        recipe=told.recipe,
        spec=told.spec,
    )
    journal.store.log.append(journal._line(bad))
    world.restart()
    assert list(world.journal.state.jobs) == [good]
    assert kinds(world)[-1] == "Quarantined"


def test_a_job_that_it_happened_to_says_so(world: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    job = world.submit(work=100)
    world.passes(2)

    def fail(*_: object) -> None:
        raise ZeroDivisionError("float division by zero")

    monkeypatch.setitem(EVENTS, JobCancelled, fail)
    world.restart()
    with pytest.raises(SetAsideError):
        world.commands.cancel(job, ADMIN)
    assert "Cancelled (event 4) was set aside: ZeroDivisionError" in str(world.journal.state.story(world.record(job)))
    world.passes(40)
    assert world.phase(job) is JobPhase.FINISHED
