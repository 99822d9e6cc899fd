"""Why a job stands where it stands: its whole story, in order, in words."""

import pytest

from penstock.core import (
    Curve,
    CurveChanged,
    Deadline,
    EventError,
    JobCancelled,
    JobFinished,
    JobSubmitted,
    NodeLost,
    WorkerFailed,
)
from penstock.scheduler import Entry, Scheduler
from tests.scheduler.build import job, scheduler


def told(machine: Scheduler, name: str) -> list[tuple[float, str]]:
    return [(entry.at, entry.text) for entry in machine.why(name).entries]


def test_a_whole_life_is_told_in_order() -> None:
    machine = scheduler("2x2", "edf")
    machine.handle(JobSubmitted(0.0, job("a", 400.0, goal=Deadline(1000.0))))
    machine.handle(JobSubmitted(10.0, job("b", 100.0, at_most=2, goal=Deadline(500.0), submitted_at=10.0)))
    machine.handle(JobSubmitted(20.0, job("c", 20.0, at_least=2, goal=Deadline(100.0), submitted_at=20.0)))
    machine.handle(JobFinished(25.0, "c"))
    machine.handle(JobFinished(65.0, "b"))
    machine.handle(JobFinished(110.0, "a"))
    assert told(machine, "a") == [
        (0.0, "submitted: 400 iterations within 16m 40s"),
        (0.0, "best effort: edf lets every job in and promises nothing"),
        (0.0, "started on 4 devices on 2 nodes"),
        (10.0, "shrank from 4 to 2 devices on 1 node"),
        (
            20.0,
            "suspended: its 2 devices go to job c, which edf puts first; "
            "it is expected to go on in about 5s if nobody else comes",
        ),
        (25.0, "resumed on 2 devices on 1 node"),
        (65.0, "grew from 2 to 4 devices on 2 nodes"),
        (110.0, "finished"),
    ]


def test_misfortunes_are_told() -> None:
    machine = scheduler("2x1", "edf")
    machine.handle(JobSubmitted(0.0, job("a", 400.0)))
    machine.handle(NodeLost(10.0, "node-1"))
    machine.handle(WorkerFailed(20.0, "a"))
    machine.handle(CurveChanged(30.0, "a", Curve.from_table({1: 3.0})))
    machine.handle(CurveChanged(35.0, "a", Curve.from_table({1: 3.1})))
    machine.handle(JobCancelled(40.0, "a"))
    assert told(machine, "a") == [
        (0.0, "submitted: 400 iterations at best effort"),
        (0.0, "best effort: edf lets every job in and promises nothing"),
        (0.0, "started on 2 devices on 2 nodes"),
        (10.0, "node-1 was lost; it goes on from its last checkpoint"),
        (10.0, "resumed on 1 device on 1 node"),
        (20.0, "a worker failed; it goes on from its last checkpoint"),
        (20.0, "resumed on 1 device on 1 node"),
        (30.0, "its speed on 1 device is 3 iterations a second, not 1"),
        (40.0, "cancelled"),
    ]


def test_a_late_end_says_how_late() -> None:
    machine = scheduler()
    machine.handle(JobSubmitted(0.0, job("a", goal=Deadline(40.0))))
    machine.handle(JobFinished(100.0, "a"))
    assert told(machine, "a")[-1] == (100.0, "finished, 1m late")


def test_a_refusal_says_why() -> None:
    machine = scheduler("1x2", "elasticflow")
    machine.handle(JobSubmitted(0.0, job("a", goal=Deadline(20.0))))
    assert told(machine, "a")[-1] == (0.0, "refused: even alone on the cluster it would end 30s after its deadline")


def test_a_move_to_other_devices_is_told() -> None:
    machine = scheduler("2x4", "edf")
    for number in range(5):
        machine.handle(JobSubmitted(0.0, job(f"small-{number}", at_most=1, goal=Deadline(900.0))))
    lonely = next(name for name in machine.active() if machine.devices_of(name)[0] >= 4)
    others = [name for name in machine.active() if name != lonely]
    machine.handle(JobFinished(10.0, others[0]), JobFinished(10.0, others[1]))
    machine.handle(JobSubmitted(20.0, job("wide", at_least=4, goal=Deadline(950.0), submitted_at=20.0)))
    assert machine.devices_of("wide") == (4, 5, 6, 7)
    assert told(machine, lonely)[-1] == (20.0, "moved to other devices: 1 device on 1 node")
    machine.validate()


def test_now_says_what_it_holds_or_waits_for() -> None:
    machine = scheduler()
    machine.handle(JobSubmitted(0.0, job("a", requested=3)), JobSubmitted(0.0, job("b", requested=2)))
    assert machine.why("a").now == "holds 3 of 4 devices"
    assert machine.why("b").now == "waits for 2 devices; 1 of 4 are free"


def test_a_job_that_is_over_has_no_now() -> None:
    machine = scheduler()
    machine.handle(JobSubmitted(0.0, job("a", requested=4)))
    machine.why("a")
    machine.handle(JobFinished(25.0, "a"))
    assert machine.why("a").now == ""


def test_a_story_is_readable() -> None:
    machine = scheduler()
    machine.handle(JobSubmitted(1000.0, job("a", requested=4, submitted_at=1000.0)))
    machine.handle(WorkerFailed(1090.0, "a"))
    assert str(machine.why("a")).splitlines() == [
        "a:",
        "+      0s  submitted: 100 iterations at best effort",
        "+      0s  best effort: fifo lets every job in and promises nothing",
        "+      0s  started on 4 devices on 1 node",
        "+  1m 30s  a worker failed; it goes on from its last checkpoint",
        "+  1m 30s  resumed on 4 devices on 1 node",
        "     now:  holds 4 of 4 devices",
    ]


def test_asking_changes_nothing() -> None:
    machine = scheduler()
    machine.handle(JobSubmitted(0.0, job("a", requested=4)))
    entries = list(machine.why("a").entries)
    machine.why("a")
    assert machine.why("a").entries == entries == [*entries[:-1], Entry(0.0, "started on 4 devices on 1 node")]
    assert machine.next_finish_at() == 25.0
    machine.validate()


def test_a_scheduler_without_stories_says_so() -> None:
    machine = scheduler(stories=False)
    machine.handle(JobSubmitted(0.0, job("a")))
    with pytest.raises(EventError, match="this scheduler keeps no stories; create it with stories=True"):
        machine.why("a")
