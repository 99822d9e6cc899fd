"""Lists in which a job array is one line: how many of its jobs stand where, instead of a line for each.

The jobs of an array were submitted together, so their numbers follow each other (unless they were recovered from what
their runs tell): a list that has met one of them goes on below the first, however many there are.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.control.platform.job_arrays import array_name
from penstock.control.platform.listing import JobFilter, listed_jobs
from penstock.control.state.active_jobs import array_of
from penstock.control.state.journal import Journal
from penstock.control.state.store import ArrayMember, JobRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayRow:
    """One array as people list it; ``first`` and ``number`` are those of its first and its last job."""

    id: str
    name: str
    tenant: str
    first: int
    number: int
    submitted_at: float
    states: Mapping[str, int]
    devices: int
    active: Sequence[str]
    """Jobs that have not ended."""

    def goes_on_below(self, met: int) -> int:
        """Where a list goes on that has met the job with this number."""
        return self.first if self.number - self.first + 1 == sum(self.states.values()) else met


@dataclass(frozen=True, slots=True)
class GroupedRows:
    """One page: jobs of no array, arrays, and the number below which the next page begins."""

    jobs: Sequence[JobRow]
    arrays: Sequence[ArrayRow]
    next: int | None


def grouped_rows(journal: Journal, wanted: JobFilter, *, after: int | None, limit: int) -> GroupedRows:
    """Up to ``limit`` lines, the newest first, of jobs with a number below ``after``."""
    jobs: list[JobRow] = []
    arrays: dict[str, ArrayRow] = {}
    while True:
        rows = listed_jobs(journal, wanted, after=after, limit=limit + 1)
        for row in rows:
            array = array_of(row.id)
            if array not in arrays and len(jobs) + len(arrays) == limit:
                return GroupedRows(jobs, list(arrays.values()), after)
            if array is None:
                jobs.append(row)
            elif array not in arrays:
                arrays[array] = array_row(journal, array)
            below = row.number if array is None else arrays[array].goes_on_below(row.number)
            after = below if after is None else min(after, below)
        if len(rows) <= limit:
            return GroupedRows(jobs, list(arrays.values()), None)


def array_members(journal: Journal, array: str) -> list[ArrayMember | JobRow]:
    """The jobs of an array as they are now, in order of their numbers; none if there is no such array."""
    members: dict[str, ArrayMember | JobRow] = {member.id: member for member in journal.store.jobs.members(array)}
    members |= {row.id: row for row in journal.unlisted() if array_of(row.id) == array}
    return sorted(members.values(), key=lambda member: member.number)


def newest_array(journal: Journal, name: str, tenant: str | None) -> str | None:
    """Return the id of the newest array of that name, of one tenant where one is given; None if there is none."""
    unlisted = [
        row for row in journal.unlisted()
        if array_of(row.id) and array_name(row.name) == name and tenant in (None, row.tenant)
    ]  # fmt: skip
    newest = max(unlisted, key=lambda row: row.number, default=None)
    member = newest.id if newest is not None else journal.store.jobs.newest_in_array(name, tenant=tenant)
    return None if member is None else array_of(member)


def array_row(journal: Journal, array: str) -> ArrayRow:
    """An array of which there is a job, as it stands now."""
    found = array_members(journal, array)
    return ArrayRow(
        id=array, name=array_name(found[0].name), tenant=found[0].tenant, first=found[0].number,
        number=found[-1].number, submitted_at=found[0].submitted_at,
        states=dict(Counter(member.state for member in found)), devices=sum(len(member.devices) for member in found),
        active=[member.id for member in found if member.ended_at is None],
    )  # fmt: skip
