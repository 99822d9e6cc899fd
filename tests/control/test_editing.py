"""A job that waits or runs gets another deadline, other bounds, another priority or name; or nothing is changed."""

from typing import Any

import pytest

from penstock.control.state.entries import Edited, Paused, RunFailed
from penstock.core import Amendment, Deadline, InputError, Strictness, ValueStep, Verdict
from penstock.spec import read_edit
from penstock.wire import ConflictError, ForbiddenError, JobPhase, MissingError, QuotaRequest
from tests.control.build import ADMIN, Platform


def edit(world: Platform, job: str, **wanted: Any) -> None:
    world.commands.edit(job, ADMIN, wanted)


def verdict(world: Platform, job: str) -> Verdict | None:
    quote = world.record(job).quote
    return quote and quote.verdict


def test_a_new_deadline_is_promised_and_lasts(world: Platform) -> None:
    job = world.submit(work=400, within=1e6, name="night")
    world.passes(2)
    run = world.record(job).run_id
    edit(world, job, deadline="1h", priority=9, name="day")
    at = world.clock() + 3600.0
    for _ in range(2):
        record = world.record(job)
        assert record.job.deadline == at
        assert (record.job.priority, record.submission.name, record.submission.spec["deadline"]) == (9, "day", "1h")
        assert record.quote is not None
        assert (record.quote.verdict, record.quote.deadline) == (Verdict.PROMISED, at)
        assert record.run_id == run, "it goes on as it is"
        assert "edited by ada: due in 1h, priority 9, called day" in str(world.journal.state.story(record))
        world.restart()
    assert world.journal.row(world.record(job)).name == "day"
    world.passes(150)
    assert world.phase(job) is JobPhase.FINISHED


def test_a_refused_edit_changes_nothing_and_says_what_could_be(world: Platform) -> None:
    job = world.submit(work=400, within=1e6)
    world.passes(2)
    before, seq = world.record(job).copy(), world.journal.seq
    with pytest.raises(ConflictError, match="even alone on the cluster") as caught:
        edit(world, job, deadline="20s", priority=50, name="urgent")
    assert "UTC or later" in caught.value.allowed
    after = world.record(job)
    assert (after.job, after.quote, after.submission, world.journal.seq) == (
        before.job, before.quote, before.submission, seq,
    )  # fmt: skip


def test_a_promise_to_somebody_else_stands_in_the_way(world: Platform) -> None:
    first = world.submit(work=4000, within=1100)
    second = world.submit(work=400, within=5000)
    with pytest.raises(ConflictError, match="promises already made"):
        edit(world, second, deadline="150s")
    assert (verdict(world, first), verdict(world, second)) == (Verdict.PROMISED, Verdict.PROMISED)
    edit(world, first, best_effort=True)
    assert verdict(world, first) is Verdict.BEST_EFFORT
    edit(world, second, deadline="150s")
    assert verdict(world, second) is Verdict.PROMISED


def test_what_late_is_worth_is_said_anew_with_a_new_deadline(world: Platform) -> None:
    job = world.submit(work=400, within=1e6)
    edit(world, job, deadline="1h", then={"2h": "50%"})
    now, record = world.clock(), world.record(job)
    assert record.job.goal == Deadline(now + 3600.0, Strictness.SOFT, (ValueStep(now + 7200.0, 0.5),))
    assert record.submission.spec["goal"] == {"deadline": "1h", "then": {"2h": "50%"}}
    with pytest.raises(InputError, match="without what late is worth from now on"):
        edit(world, job, deadline="3h")
    with pytest.raises(InputError, match="later values without a deadline"):
        edit(world, job, then={"2h": "50%"})
    with pytest.raises(InputError, match="a value of 50% that ends no later"):
        edit(world, job, deadline="3h", then={"2h": "50%"})
    assert world.record(job).job.goal == record.job.goal
    edit(world, job, deadline="3h", then={})
    assert world.record(job).job.goal == Deadline(now + 3 * 3600.0, Strictness.SOFT)


def test_an_edit_is_undone_by_another(world: Platform) -> None:
    job = world.submit(work=400)
    edit(world, job, deadline="1h")
    assert verdict(world, job) is Verdict.PROMISED
    edit(world, job, best_effort=True)
    assert verdict(world, job) is Verdict.BEST_EFFORT
    assert "deadline" not in world.record(job).submission.spec


def test_narrower_bounds_move_a_job_that_can_resume(world: Platform) -> None:
    job = world.submit(work=400)
    world.passes(5)
    assert len(world.record(job).places) == 4
    run = world.record(job).run_id
    edit(world, job, devices="1..2")
    assert len(world.record(job).places) == 2
    world.passes(10)
    [alive] = world.backend.alive()
    assert alive == run, "in place"
    assert len(world.backend.all_runs[alive].launch.workers) == 2
    assert world.backend.all_runs[alive].step > 4


def test_wider_bounds_move_a_job_in_place_too(world: Platform) -> None:
    job = world.submit(work=400)
    edit(world, job, devices="1..2")
    world.passes(5)
    run = world.record(job).run_id
    assert len(world.record(job).places) == 2
    edit(world, job, devices="3..4")
    world.restart()
    world.passes(5)
    assert world.record(job).run_id == run
    assert world.backend.alive() == [run]
    assert len(world.backend.all_runs[run].launch.workers) == 4


def test_a_job_for_which_there_is_no_room_within_its_new_bounds_is_suspended(world: Platform) -> None:
    other, job = world.submit(work=4000, within=20000.0), world.submit(work=4000)
    for each in (other, job):
        edit(world, each, devices=2)
    world.passes(3)
    assert len(world.record(job).places) == 2
    edit(world, job, devices="3..4")
    world.passes(5)
    assert world.phase(job) is JobPhase.SUSPENDED
    assert world.backend.alive() == [world.record(other).run_id]


@pytest.mark.parametrize("then", [Paused, RunFailed])
def test_what_happens_between_an_edit_and_its_decision(world: Platform, then: type[Paused] | type[RunFailed]) -> None:
    job = world.submit(work=400)
    world.passes(5)
    record, now = world.record(job), world.clock()
    edited = Edited(at=now, job_id=job, amendment=Amendment(at_least=1, at_most=2), spec={}, name="night", what="")
    failed = RunFailed(at=now, job_id=job, run_id=record.run_id, reason="exit", code=1, retry_at=now + 1.0)
    world.journal.record(edited, Paused(at=now, job_id=job) if then is Paused else failed)
    assert not record.displaced
    world.passes(5)
    assert len(world.backend.alive()) == (0 if then is Paused else 1)
    assert world.phase(job) is (JobPhase.PAUSED if then is Paused else JobPhase.RUNNING)


def test_bounds_that_would_cost_the_work_of_a_job_are_refused(world: Platform) -> None:
    job = world.submit(work=400, resumable=False)
    world.passes(5)
    with pytest.raises(ConflictError, match="runs on 4 devices and cannot resume"):
        edit(world, job, devices="1..2")
    edit(world, job, devices="2..")
    assert len(world.record(job).places) == 4


def test_a_paused_job_asks_for_it_when_it_is_resumed(world: Platform) -> None:
    job = world.submit(work=400, within=1e6)
    world.commands.pause(job, ADMIN)
    edit(world, job, deadline="1h")
    assert verdict(world, job) is None
    world.commands.resume(job, ADMIN)
    assert verdict(world, job) is Verdict.PROMISED
    assert world.record(job).job.goal == Deadline(world.clock() + 3600.0)


def test_a_job_that_is_being_prepared_asks_for_it_when_it_is_ready(world: Platform) -> None:
    job = world.submit(work=400, packages=["numpy"])
    edit(world, job, deadline="1h")
    world.passes()
    world.prepare()
    assert verdict(world, job) is Verdict.PROMISED


def test_a_job_that_was_edited_is_not_turned_away_when_devices_are_lost_meanwhile(world: Platform) -> None:
    """With time between decisions the answer may be another than the one that was asked for."""
    job = world.submit(work=400)
    entry = Edited(
        at=world.clock(),
        job_id=job,
        amendment=Amendment(goal=Deadline(world.clock() + 5.0)),
        spec={},
        name="n",
        what="x",
    )
    world.journal.record(entry)
    assert verdict(world, job) is Verdict.BEST_EFFORT
    assert world.phase(job) is JobPhase.RUNNING
    world.passes(130)
    assert world.phase(job) is JobPhase.FINISHED


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ({}, "nothing to change"),
        ({"best_effort": False}, "nothing to change"),
        ({"deadline": "soon"}, "not a deadline"),
        ({"deadline": "1970-01-02T00:00"}, "is over"),
        ({"deadline": "1h", "best_effort": True}, "both deadline and best_effort"),
        ({"devices": "0..2"}, "not a range"),
        ({"devices": "5..2"}, "at least 5 and at most 2"),
        ({"priority": 101}, "not a priority"),
        ({"name": "a b"}, "not a name"),
        ({"work": 5}, "work"),
    ],
)
def test_bad_input_changes_nothing(world: Platform, wanted: dict[str, Any], problem: str) -> None:
    job = world.submit(work=400, within=1e6)
    seq = world.journal.seq
    with pytest.raises(InputError, match=problem):
        edit(world, job, **wanted)
    assert world.journal.seq == seq


def test_what_cannot_be_edited(world: Platform) -> None:
    job = world.submit(work=400)
    with pytest.raises(ConflictError, match="could run on no number of the 4 devices"):
        edit(world, job, devices=8)
    world.platform.administration.set_quota("default", QuotaRequest(devices=2), ADMIN)
    with pytest.raises(ForbiddenError, match="asks for 4 devices"):
        edit(world, job, devices="1..4")
    array = world.platform.submit_array({"work": 10}, "1..2", ADMIN)
    with pytest.raises(ConflictError, match="called after its array"):
        edit(world, array.jobs[0], name="other")
    world.commands.cancel(job, ADMIN)
    with pytest.raises(ConflictError, match="is cancelled and cannot be edited"):
        edit(world, job, priority=5)
    with pytest.raises(MissingError):
        edit(world, "j-nobody", priority=5)


@pytest.mark.parametrize("goal", [{"deadline": "1d"}, {"best_effort": True}, {"goal": {"deadline": "1d"}}])
@pytest.mark.parametrize(
    ("wanted", "key"),
    [
        ({"deadline": "1h"}, "deadline"),
        ({"deadline": "1h", "then": {"2h": "50%"}}, "goal"),
        ({"best_effort": True}, ""),
    ],
)
def test_an_edited_job_file_states_one_goal(goal: dict[str, Any], wanted: dict[str, Any], key: str) -> None:
    changed = read_edit(wanted).applied_to({"work": 1} | goal)
    assert {"deadline", "best_effort", "goal"} & changed.keys() == ({key} if key else set())
    assert read_edit({"priority": 3}).applied_to({"work": 1} | goal) == {"work": 1, "priority": 3} | goal
