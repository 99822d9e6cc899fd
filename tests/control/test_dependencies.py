"""Jobs that come after others: they start when those have finished, and end when those cannot."""

import pytest

from penstock.control.state.records import JobRecord
from penstock.core import Verdict
from penstock.wire import ConflictError, JobPhase, MissingError
from tests.control.build import ADMIN, Platform


def until(world: Platform, phase: JobPhase, *jobs: str) -> None:
    """Let time pass, and prepare what has to be, until all of these jobs are there."""
    for _ in range(300):
        if {world.phase(job) for job in jobs} == {phase}:
            return
        world.passes(2)
        world.prepare()
    raise AssertionError({job: world.phase(job) for job in jobs})


def now_of(world: Platform, record: JobRecord) -> str:
    return world.journal.state.story(record).now


def test_a_job_starts_when_what_it_waits_for_has_finished(world: Platform) -> None:
    first = world.submit(work=100, name="data")
    world.passes(10)
    second = world.submit(work=100)
    last = world.submit(work=40, within=1000, after=["data", second])
    world.passes()
    record = world.record(last)
    assert world.phase(last) is JobPhase.BLOCKED
    assert record.reason == f"it comes after {first}, {second}"
    assert now_of(world, record) == f"blocked: it starts when these finish: {first} (running), {second} (running)"
    world.restart()
    until(world, JobPhase.FINISHED, first)
    assert now_of(world, world.record(last)) == f"blocked: it starts when these finish: {second} (running)"
    until(world, JobPhase.FINISHED, second)
    until(world, JobPhase.RUNNING, last)
    quote = world.record(last).quote
    assert quote is not None
    assert quote.verdict is Verdict.PROMISED
    assert world.record(last).job.deadline == 1_001_010.0, "it counts from the submission"
    lines = world.journal.store.log.page(job_id=last, limit=100)
    kinds = [line.kind for line in lines if line.kind != "PreparationNoted"]
    assert kinds[:3] == ["Submitted", "Unblocked", "Prepared"]
    until(world, JobPhase.FINISHED, last)


@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_it_is_cancelled_when_what_it_waits_for_does_not_finish(world: Platform, how: str) -> None:
    first = world.submit(work=400, retries=0)
    last = world.submit(work=40, after=[first])
    after_that = world.submit(work=40, after=[last])
    anyway = world.submit(work=40, after=[first], after_any=True)
    world.passes(2)
    if how == "cancelled":
        world.commands.cancel(first, ADMIN)
    else:
        world.backend.fail(world.backend.alive()[0])
    until(world, JobPhase.CANCELLED, last, after_that)
    assert world.phase(first).value == how
    assert world.record(last).reason == f"what it waits for did not finish: {first} {how}"
    assert world.record(after_that).reason == f"what it waits for did not finish: {last} cancelled"
    until(world, JobPhase.RUNNING, anyway)


def test_an_array_is_waited_for_as_a_whole_and_may_wait(world: Platform) -> None:
    array = world.platform.submit_array({"name": "parts", "work": 40, "at_most": 1}, "1..3", ADMIN)
    last = world.submit(work=40, after=["parts"])
    many = world.platform.submit_array({"name": "more", "work": 40, "after": [array.id]}, "1..2", ADMIN)
    world.passes()
    assert world.record(last).submission.after == tuple(array.jobs)
    assert {world.phase(job) for job in (last, *many.jobs)} == {JobPhase.BLOCKED}
    with pytest.raises(ConflictError, match="cannot be paused yet"):
        world.platform.pause_array("more", ADMIN)
    until(world, JobPhase.FINISHED, last, *many.jobs)
    assert {world.phase(job) for job in array.jobs} == {JobPhase.FINISHED}


def test_what_is_over_is_not_waited_for(world: Platform) -> None:
    first = world.submit(work=40)
    until(world, JobPhase.FINISHED, first)
    assert world.phase(world.submit(work=40, after=[first])) is not JobPhase.BLOCKED
    world.commands.cancel(gone := world.submit(work=40), ADMIN)
    with pytest.raises(ConflictError, match="would never start"):
        world.submit(work=40, after=[gone])
    assert world.phase(world.submit(work=40, after=[gone], after_any=True)) is not JobPhase.BLOCKED


def test_nobody_waits_for_what_is_not_there_or_is_somebody_elses(world: Platform) -> None:
    theirs = world.submit(work=400, tenant="red")
    eve = world.journal.store.tokens.create(name="eve", role=ADMIN.role.USER, tenant="blue", now=1.0)[1]
    before = world.journal.seq
    with pytest.raises(MissingError, match="no job 'nothing' to come after"):
        world.submit(work=40, after=["nothing"])
    with pytest.raises(MissingError, match=f"no job '{theirs}' to come after"):
        world.commands.submit({"work": 40, "after": [theirs]}, eve)
    assert world.journal.seq == before


def test_a_blocked_job_can_be_edited_and_cancelled_but_not_paused(world: Platform) -> None:
    first = world.submit(work=400)
    last = world.submit(work=40, after=[first])
    world.commands.edit(last, ADMIN, {"deadline": "1h", "priority": 3})
    assert (world.record(last).job.priority, world.phase(last)) == (3, JobPhase.BLOCKED)
    with pytest.raises(ConflictError, match="is blocked and cannot be paused"):
        world.commands.pause(last, ADMIN)
    world.commands.cancel(last, ADMIN)
    assert world.phase(last) is JobPhase.CANCELLED


def test_what_is_expected_follows_what_is_waited_for(world: Platform) -> None:
    first = world.submit(work=400)
    last = world.submit(work=80, after=[first])
    world.forecasts.refresh(now=True)
    end = world.forecasts.expected_at(first)
    assert end is not None
    assert world.forecasts.expected_at(last) == pytest.approx(end + 20.0)
    quote = world.platform.quote({"work": 80, "within": 60, "after": [first]}, ADMIN)
    assert quote.verdict == "deferred"
    assert "is answered then, in about 1m 40s; it would then end 1m after its deadline" in quote.reason
    world.commands.pause(first, ADMIN)
    assert "when that is, is not known yet" in world.platform.quote({"work": 8, "after": [first]}, ADMIN).reason
