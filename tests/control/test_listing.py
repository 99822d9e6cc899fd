"""The list of jobs shows what is, and looking at it changes nothing."""

from typing import Any

import pytest

from penstock.control.platform.listing import JobFilter, listed_jobs, parse_cursor
from penstock.core import InputError, UnknownNameError
from penstock.wire import JobPage
from tests.control.build import ADMIN, Platform


def ids(page: JobPage) -> list[str]:
    return [job.id for job in page.jobs]


def test_a_job_is_listed_at_once_and_reading_writes_nothing(world: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any, **__: Any) -> None:
        raise AssertionError("a read wrote")

    monkeypatch.setattr(world.journal.store.jobs, "publish", forbidden)
    first, second = world.submit(name="first"), world.submit(name="second")
    assert ids(world.platform.jobs(ADMIN)) == [second, first]
    world.commands.cancel(first, ADMIN)
    assert {job.id: job.state for job in world.platform.jobs(ADMIN).jobs}[first] == "cancelled"


def test_what_changed_since_it_was_stored_is_listed_as_it_is_now(world: Platform) -> None:
    kept, cancelled = world.submit(name="kept"), world.submit(name="gone")
    world.journal.publish()
    world.commands.cancel(cancelled, ADMIN)
    assert ids(world.platform.jobs(ADMIN, states=["cancelled"])) == [cancelled]
    assert cancelled not in ids(world.platform.jobs(ADMIN, states=["pending", "running"]))
    assert kept in ids(world.platform.jobs(ADMIN))


def test_pages_hold_every_job_once_while_some_are_not_stored_yet(world: Platform) -> None:
    jobs = [world.submit() for _ in range(7)]
    world.journal.publish()
    world.commands.cancel(jobs[2], ADMIN)
    world.commands.cancel(jobs[5], ADMIN)
    jobs += [world.submit() for _ in range(3)]
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = world.platform.jobs(ADMIN, cursor=cursor, limit=2)
        seen += ids(page)
        cursor = page.next
        if cursor is None:
            break
    assert seen == jobs[::-1]


def test_a_row_on_its_way_into_the_list_is_not_missed(world: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    store, during = world.journal.store.jobs, list[str]()
    write = store.publish

    def slow(*arguments: Any, **options: Any) -> None:
        during.extend(row.id for row in listed_jobs(world.journal, JobFilter(), after=None, limit=10))
        write(*arguments, **options)

    monkeypatch.setattr(store, "publish", slow)
    job = world.submit()
    world.journal.publish()
    assert during == [job]
    assert ids(world.platform.jobs(ADMIN)) == [job]


def test_unknown_states_and_cursors_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'running'"):
        JobFilter(states=("runing",))
    with pytest.raises(InputError, match="not a cursor"):
        parse_cursor("zzz")
