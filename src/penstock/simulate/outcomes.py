"""What became of every job, as columns: one line per job, however many there are."""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from penstock.core import require


class Fate(StrEnum):
    """How a job ended."""

    MET = "met"
    """Finished by its deadline."""
    LATE = "late"
    """Finished after its deadline."""
    DECLINED = "declined"
    """Told that its deadline cannot be met."""
    DONE = "done"
    """Finished; it had no deadline."""
    CANCELLED = "cancelled"
    """Given up by its user, or failed for good."""
    UNFINISHED = "unfinished"
    """The simulation ended first."""


@dataclass(slots=True, kw_only=True)
class JobOutcome:
    """One job's life. Times are absolute seconds; NaN where it did not come to that."""

    id: str
    fate: Fate
    model: str
    tenant: str
    submitted_at: float
    deadline: float
    promised: bool
    started_at: float = math.nan
    finished_at: float = math.nan
    requested: int = 0
    device_seconds: float = 0.0
    rescales: int = 0
    """How often its devices were changed while it ran: more, fewer or others."""
    suspensions: int = 0
    """How often it lost all its devices, whatever the cause."""
    fairness: float = math.nan
    """Completion time over that on a private, equal share of the cluster; above 1 is worse than the share."""
    value: float = math.nan
    """Share of its value that it had when it was done, 0 if it never was; NaN without a deadline."""
    breach: str = ""
    """Why its promise was broken; empty if it was kept or nothing was promised."""
    deserved_s: float = math.nan
    """Device-seconds that its part of its tenant's share came to, as far as it could use them."""
    migrations: int = 0
    """Of ``rescales``, those that left it on as many devices as before."""
    preemptions: int = 0
    """Of ``suspensions``, those that the policy decided."""
    failures: int = 0
    """Of ``suspensions``, those by a lost node or device or a failed worker."""
    pauses: int = 0
    """Of ``suspensions``, those by its user."""
    lost_device_s: float = 0.0
    """Device-seconds of work that was lost and had to be done again."""
    energy_j: float = math.nan
    """What its devices drew while it held them; NaN where nothing says how much a device draws."""

    @property
    def long_term_fairness(self) -> float:
        """Device-seconds it held over those it deserved: a loss below one, a benefit above."""
        return self.device_seconds / self.deserved_s if self.deserved_s > 0 else math.nan

    @property
    def completion_s(self) -> float:
        return self.finished_at - self.submitted_at

    @property
    def queueing_s(self) -> float:
        return self.started_at - self.submitted_at


COLUMNS = tuple(field.name for field in fields(JobOutcome))


def write_csv(outcomes: list[JobOutcome], path: Path) -> None:
    """One row per job."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(_rows(outcomes))


def write_parquet(outcomes: list[JobOutcome], path: Path) -> None:
    """One row per job, typed; needs the ``parquet`` extra."""
    pa = require("pyarrow", extra="parquet", why="Parquet output")
    pq = require("pyarrow.parquet", extra="parquet", why="Parquet output")
    columns: dict[str, list[Any]] = {name: [getattr(o, name) for o in outcomes] for name in COLUMNS}
    pq.write_table(pa.table(columns), path)


def _rows(outcomes: list[JobOutcome]) -> Iterator[list[Any]]:
    for outcome in outcomes:
        yield [getattr(outcome, name) for name in COLUMNS]
