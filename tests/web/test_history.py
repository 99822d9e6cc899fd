"""Searching the past, and looking ahead."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.control.future.planned_timeline import plan_timeline
from penstock.control.state.entries import RunFinished
from penstock.control.state.store import Search
from tests.control.build import ADMIN
from tests.web.world import Seen, seen


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Seen]:
    with seen(tmp_path) as found:
        yield found


def test_search_finds_text_literally(there: Seen) -> None:
    for name in ("resnet_50", "resnet-50", "BERT", "100%"):
        there.world.submit(ADMIN, name=name)
    there.world.passes()
    history = there.world.journal.store.history

    def names(**wanted: object) -> set[str]:
        return {row.name for row in history.search(Search(**wanted)).rows}  # type: ignore[arg-type]

    assert names(text="bert") == {"BERT"}
    assert names(text="t_5") == {"resnet_50"}
    assert names(text="%") == {"100%"}
    assert names(text="'; drop table jobs; --") == set()
    assert names(states=["finished"]) == set()
    assert names(tenant="nobody") == set()


def test_pages_follow_one_another_without_gaps(there: Seen) -> None:
    for number in range(7):
        there.world.submit(ADMIN, name=f"job-{number}")
    there.world.passes()
    history = there.world.journal.store.history
    pages = [history.search(Search(order="name", descending=False, offset=at, limit=3)) for at in (0, 3, 6)]
    assert [row.name for page in pages for row in page.rows] == [f"job-{number}" for number in range(7)]
    assert {page.total for page in pages} == {7}


def test_an_unknown_order_is_the_usual_one(there: Seen) -> None:
    for _ in range(3):
        there.world.submit(ADMIN)
    there.world.passes()
    rows = there.world.journal.store.history.search(Search(order="number; drop")).rows
    assert [row.number for row in rows] == [3, 2, 1]


def test_holdings_tell_of_a_resize(there: Seen) -> None:
    world = there.world
    first = world.submit(ADMIN, work=10_000)
    world.passes(5)
    world.submit(ADMIN, work=100, at_least=2, at_most=2, within=200)
    world.passes(5)
    found = world.journal.store.history.holdings(0.0, world.clock.time, job_id=first)
    assert [len(one.devices) for one in found] == [4, 2]
    assert found[0].until == found[1].since
    assert found[1].until is None


def test_waiting_ends_with_the_first_devices(there: Seen) -> None:
    world = there.world
    began = world.clock.time
    world.submit(ADMIN, work=40, at_least=4)
    world.passes(2)
    world.submit(ADMIN, work=40, at_least=4)
    world.passes(5)
    waits = world.journal.store.history.waits(began - 10, world.clock.time)
    assert waits[-1][1] == world.clock.time, "the second one still waits"
    assert waits[0][1] < world.clock.time


def test_looking_ahead_tells_what_then_happens(there: Seen) -> None:
    """The plan for three jobs on four devices, and the same scheduler living through it."""
    world = there.world
    jobs = [world.submit(ADMIN, work=work, at_least=2, at_most=4) for work in (40, 80, 120)]
    world.passes(2)
    state = world.journal.state
    ahead = plan_timeline(state.scheduler.twin(), world.clock.time)
    assert set(ahead.ends) == set(jobs)
    assert {bar.job_id for bar in ahead.bars} == set(jobs)
    for at in sorted({bar.start for bar in ahead.bars}):
        taken = [
            d for b in ahead.bars if b.start <= at < b.end for d in range(b.first_device, b.first_device + b.count)
        ]
        assert len(taken) == len(set(taken)) <= 4, "no device is planned twice"
    for end, job in sorted((end, job) for job, end in ahead.ends.items()):
        world.clock.time = end
        world.journal.record(RunFinished(at=end, job_id=job, run_id=world.record(job).run_id))
        world.step()
    assert [world.phase(job).value for job in jobs] == ["finished"] * 3
    assert ahead.until == max(ahead.ends.values())


def test_looking_ahead_changes_nothing(there: Seen) -> None:
    world = there.world
    job = world.submit(ADMIN, work=1000)
    world.passes(2)
    before = (world.journal.seq, world.phase(job), world.record(job).grant)
    plan_timeline(world.journal.state.scheduler.twin(), world.clock.time, horizon_s=10.0)
    assert (world.journal.seq, world.phase(job), world.record(job).grant) == before
    world.journal.state.scheduler.validate()
