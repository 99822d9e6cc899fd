"""Jobs that are not over, by tenant and by array, so that nobody has to look at all of them to count or find some."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from penstock.control.state.records import JobRecord

JOB_ID = re.compile(r"(j-[0-9a-z]{8})(-[0-9]+)?")
"""The id of a job or of an array; a member's is its array's with an index behind it."""


def array_of(job_id: str) -> str | None:
    """The array that a job is of, if it is of one."""
    found = JOB_ID.fullmatch(job_id)
    return None if found is None or found[2] is None else found[1]


class ActiveJobs:
    """An index over the jobs of a state. Adding one twice and removing one that is not there change nothing."""

    def __init__(self) -> None:
        self._tenants: dict[str, set[str]] = {}
        self._arrays: dict[str, dict[str, JobRecord]] = {}

    def add(self, record: JobRecord) -> None:
        self._tenants.setdefault(record.job.tenant, set()).add(record.id)
        if (array := array_of(record.id)) is not None:
            self._arrays.setdefault(array, {})[record.id] = record

    def remove(self, record: JobRecord) -> None:
        self._tenants.get(record.job.tenant, set()).discard(record.id)
        array = array_of(record.id) or ""
        if members := self._arrays.get(array):
            members.pop(record.id, None)
            if not members:
                del self._arrays[array]

    def count(self, tenant: str) -> int:
        return len(self._tenants.get(tenant, ()))

    def one_of_each(self) -> dict[str, str]:
        """Return the id of one job of every tenant that has any."""
        return {tenant: next(iter(jobs)) for tenant, jobs in self._tenants.items() if jobs}

    @property
    def arrays(self) -> Mapping[str, Mapping[str, JobRecord]]:
        """Their jobs that are not over, in the order they came."""
        return MappingProxyType(self._arrays)
