"""Whom jobs are accounted to: what a tenant's part of the cluster is, and what it may lend, borrow and never exceed."""

import math
import re
from dataclasses import dataclass

from penstock.core.errors import JobError
from penstock.core.limits import TENANT_NAME

MOST_PRIORITY = 2**31 - 1
"""Of a class of tenants, up and down: together with a job's own priority it fits into one number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Someone jobs are accounted to, or a group of such.

    ``share`` weighs what it deserves against its siblings: what a ``group`` deserves is divided among its members.
    ``quota`` devices are its own: while it does not use them others do, unless it forbids ``lending``, and they come
    back when its jobs ask. Beyond its quota it borrows what is idle, unless ``borrowing`` is forbidden; ``limit`` caps
    what it holds at once in any case. Tenants of a higher ``priority`` go first wherever nobody was promised anything;
    its jobs have at most ``max_priority`` of their own.
    """

    name: str
    share: float = 1.0
    quota: int | None = None
    limit: int | None = None
    group: str = ""
    lending: bool = True
    borrowing: bool = True
    priority: int = 0
    max_priority: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.share) and self.share > 0):
            raise self._refused(f"share {self.share}", "a positive, finite share")
        for word, devices in (("quota", self.quota), ("limit", self.limit)):
            if devices is not None and devices < 0:
                raise self._refused(f"{word} {devices}", "zero or more devices")
        if self.limit is not None and self.guaranteed > self.limit:
            raise self._refused(f"quota {self.quota} and limit {self.limit}", "a quota within the limit")
        if self.group == self.name and self.group:
            raise self._refused("itself as its group", "the name of another tenant, or none")
        if self.group and not re.fullmatch(TENANT_NAME, self.group):
            raise self._refused(f"group {self.group!r}", "letters, digits, dots, dashes and underscores, at most 63")
        if not self.borrowing and self.quota is None:
            raise self._refused(
                "no borrowing but no quota", "a quota that it may use", "Give a quota, or let it borrow"
            )
        if not -MOST_PRIORITY <= self.priority <= MOST_PRIORITY:
            raise self._refused(f"priority {self.priority}", f"from {-MOST_PRIORITY} to {MOST_PRIORITY}")

    @property
    def guaranteed(self) -> int:
        """Devices that are its own."""
        return self.quota or 0

    @property
    def ceiling(self) -> float:
        """The most devices it may hold at once; infinite if only the cluster ends it."""
        bounds = [self.limit, None if self.borrowing else self.quota]
        return min((bound for bound in bounds if bound is not None), default=math.inf)

    def class_priority(self, priority: int) -> int:
        """What a job's own priority counts for: never more than its tenant may give, and after its tenant's class."""
        own = priority if self.max_priority is None else min(priority, self.max_priority)
        return self.priority * 2 * (MOST_PRIORITY + 1) + max(-MOST_PRIORITY, min(own, MOST_PRIORITY))

    def _refused(self, given: str, allowed: str, guide: str = "") -> JobError:
        return JobError(f"tenant {self.name!r} with {given}", allowed, guide)
