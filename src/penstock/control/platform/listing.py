"""Jobs as people list them: stored rows, with those that changed since they were stored as they are now.

The stored list follows the state a moment later. Reading it together with what has not reached it yet makes a job
visible from the moment its submission is answered, and no reader has to write anything for that.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.control.state.active_jobs import array_of
from penstock.control.state.evaluations import evaluated_job
from penstock.control.state.journal import Journal
from penstock.control.state.store import JobRow
from penstock.core import InputError, UnknownNameError
from penstock.wire import JobPhase


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list; what is left open matches every job."""

    states: tuple[str, ...] = ()
    name: str | None = None
    tenant: str | None = None
    array: str | None = None
    evaluations: bool = True

    def __post_init__(self) -> None:
        known = [phase.value for phase in JobPhase]
        for state in self.states:
            if state not in known:
                raise UnknownNameError.of("state", state, known)

    def matches(self, row: JobRow) -> bool:
        return (
            (not self.states or row.state in self.states)
            and self.name in (None, row.name)
            and self.tenant in (None, row.tenant)
            and self.array in (None, array_of(row.id))
            and (self.evaluations or evaluated_job(row.id) is None)
        )


def parse_cursor(cursor: str | None) -> int | None:
    """The number of the last job of the page before."""
    if cursor is None:
        return None
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 18:
        raise InputError(
            f"{cursor!r} is not a cursor of a list of jobs", "what `next` of the page before says",
            "Leave it out to start over",
        )  # fmt: skip
    return int(cursor)


def listed_jobs(journal: Journal, wanted: JobFilter, *, after: int | None, limit: int) -> list[JobRow]:
    """Up to ``limit`` rows, the newest first, of jobs with a number below ``after``."""
    current = {row.id: row for row in journal.unlisted()}
    rows = [row for row in current.values() if wanted.matches(row) and (after is None or row.number < after)]
    rows += _stored(journal, wanted, set(current), after, limit)
    return sorted(rows, key=lambda row: -row.number)[:limit]


def _stored(journal: Journal, wanted: JobFilter, outdated: set[str], after: int | None, limit: int) -> Iterator[JobRow]:
    """Stored rows that are up to date, as many as a page can need."""
    still_needed = limit
    while still_needed > 0:
        page = journal.store.jobs.page(
            after=after, limit=limit, tenant=wanted.tenant, states=wanted.states, name=wanted.name, array=wanted.array,
            evaluations=wanted.evaluations,
        )  # fmt: skip
        kept = [row for row in page if row.id not in outdated]
        yield from kept
        if len(page) < limit:
            return
        still_needed -= len(kept)
        after = page[-1].number
