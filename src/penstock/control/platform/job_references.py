"""What people call a job: its id, its name, or as much of its id as says which one is meant.

A name means the job of that name that is not over; if there is none, the newest one that is. Whatever could mean two
jobs means none, and the answer lists them.
"""

import re
from collections.abc import Iterable

from penstock.control.platform.listing import JobFilter, listed_jobs
from penstock.control.state.active_jobs import JOB_ID
from penstock.control.state.evaluations import evaluated_job
from penstock.control.state.journal import Journal
from penstock.control.state.store import Principal
from penstock.wire import ConflictError

_PREFIX = re.compile(r"(j-)?([0-9a-z]{3,8}(-\d+)?)")
_LISTED = 5


def is_job_id(reference: str) -> bool:
    """Whether a reference has the form of an id."""
    return JOB_ID.fullmatch(reference) is not None or evaluated_job(reference) is not None


def resolve_job(journal: Journal, reference: str, who: Principal) -> str:
    """The id that a reference means; the reference itself where it means no job that ``who`` may see."""
    if is_job_id(reference):
        return reference
    active = _active(journal, who)
    return (
        _only((job_id for job_id, name in active.items() if name == reference), f"jobs are called {reference!r}")
        or _newest(journal, reference, who)
        or _begun(journal, reference, active, who)
        or reference
    )


def _active(journal: Journal, who: Principal) -> dict[str, str]:
    """Names of the jobs that are not over, by id."""
    with journal.reading() as state:
        return {
            record.id: record.submission.name
            for record in state.jobs.values()
            if not record.over and who.may_see(record.job.tenant)
        }


def _newest(journal: Journal, name: str, who: Principal) -> str | None:
    rows = listed_jobs(journal, JobFilter(name=name, tenant=who.sees), after=None, limit=1)
    return rows[0].id if rows else None


def _begun(journal: Journal, reference: str, active: Iterable[str], who: Principal) -> str | None:
    """The job whose id begins like this, with or without what all ids begin with."""
    given = _PREFIX.fullmatch(reference)
    if given is None:
        return None
    prefix = f"j-{given[2]}"
    stored = journal.store.jobs.beginning_with(prefix, tenant=who.sees, limit=_LISTED)
    found = {*(job_id for job_id in active if job_id.startswith(prefix)), *stored}
    return _only(found, f"jobs have ids that begin with {prefix!r}")


def _only(found: Iterable[str], what: str) -> str | None:
    ids = sorted(found)
    if len(ids) > 1:
        shown = ", ".join(ids[:_LISTED]) + (", …" if len(ids) > _LISTED else "")
        raise ConflictError(f"{len(ids)} {what}", f"one of {shown}", "penstock ps tells them apart")
    return ids[0] if ids else None
