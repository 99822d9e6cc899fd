"""The jobs on one kind of device, as a policy that looks at one kind at a time sees them.

One row per job that is not done yet, as NumPy columns: a policy is a pure function from these columns to one width per
row. Columns are read-only. :class:`~penstock.policies.View` shows all kinds at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from penstock.core import FREE, Job, Overhead
from penstock.policies.columns import Floats, Ints
from penstock.policies.job_columns import ColumnSource, JobColumns, gathered
from penstock.policies.kind_options import OPTION_COLUMNS, KindOptions
from penstock.policies.tenant_table import TenantTable


class KindColumns(JobColumns):
    """What is known of every job besides: how it could run on the one kind of device."""

    requested: Ints = gathered()
    """Width a rigid policy gives, capped to the cluster."""
    requested_rate: Floats = gathered()
    """Iterations per second at ``requested``."""
    levels: Ints = gathered()
    """(rows, L) widths worth using, ascending; padded with the last."""
    rates: Floats = gathered()
    """(rows, L) iterations per second at those widths."""
    doubts: Floats = gathered()
    """(rows, L) the share by which each rate may turn out lower."""
    depth: Ints = gathered()
    """How many of the levels are real; at least 1."""


@dataclass(frozen=True, kw_only=True, eq=False)
class KindView(KindColumns):
    """Everything a decision may depend on. Rows are in no particular order."""

    now: float
    capacity: int
    """Devices in working nodes."""
    slot: float
    """Decisions are at least this far apart, so a planned change may come this much late."""
    interval: float
    """Recent mean time between decisions (at least ``slot``)."""
    overhead: Overhead = FREE
    everybody: Sequence[Job]
    """The jobs of all kinds that the sources have columns of."""
    columns: ColumnSource
    options: KindOptions
    tenancy: Ints
    """Whose job each of them is, as a position in :attr:`tenants`."""
    tenant_table: Callable[[], TenantTable]
    rows: Ints | None = None
    """Which of them are on this kind; ``None`` if all are."""

    def __post_init__(self) -> None:
        if self.rows is None:
            self.__dict__.update(self.columns.ready)
            self.__dict__.update(self.options.ready)

    def gather(self, name: str) -> Any:
        column = getattr(self.options, name) if name in OPTION_COLUMNS else self.columns[name]
        return column if self.rows is None else column[self.rows]

    @cached_property
    def jobs(self) -> Sequence[Job]:
        return self.everybody if self.rows is None else [self.everybody[row] for row in self.rows.tolist()]

    @cached_property
    def tenant(self) -> Ints:
        """Position in :attr:`tenants`."""
        return self.tenancy if self.rows is None else self.tenancy[self.rows]

    @cached_property
    def tenants(self) -> TenantTable:
        """Whom jobs of all kinds are accounted to."""
        return self.tenant_table()

    def __len__(self) -> int:
        return len(self.everybody) if self.rows is None else len(self.rows)

    @property
    def waiting(self) -> Floats:
        """Seconds each row has been without devices; zero while it has some."""
        return np.where(self.width > 0, 0.0, self.now - self.stint_since)

    @property
    def top_rate(self) -> Floats:
        """The fastest each row can run on this cluster."""
        return self.rates[np.arange(len(self)), self.depth - 1]

    @property
    def alone_s(self) -> Floats:
        """How long each row would take with the cluster to itself from now on."""
        return np.where(self.width > 0, self.still_s, self.start_s) + self.remaining / self.top_rate

    @property
    def rigid_seconds(self) -> Floats:
        """Run time left at the requested width."""
        return self.remaining / self.requested_rate

    def order(self, *keys: Floats | Ints) -> Ints:
        """Rows sorted by the first key, then the next, then arrival."""
        return np.lexsort((self.sequence, *reversed(keys)))

    def order_by_priority(self, *keys: Floats | Ints) -> Ints:
        """The same with higher priorities first."""
        return self.order(-self.priority, *keys)
