"""The jobs on one kind of device, as a policy that looks at one kind at a time sees them.

One row per job that is not done yet, as NumPy columns: a policy is a pure function from these columns to one width per
row. Columns are read-only. :class:`~penstock.policies.View` shows all kinds at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.core import FREE, Job, Overhead
from penstock.policies.columns import Bools, Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KindView:
    """Everything a decision may depend on. Rows are in no particular order; ``sequence`` is the order of arrival."""

    now: float
    capacity: int
    """Devices in working nodes."""
    slot: float
    """Decisions are at least this far apart, so a planned change may come this much late."""
    interval: float
    """Recent mean time between decisions (at least ``slot``)."""
    overhead: Overhead = FREE

    jobs: Sequence[Job]
    standing: Ints
    """What each job has been told, as a :class:`Standing`."""
    sequence: Ints
    submitted: Floats
    deadline: Floats
    """Absolute; infinite without one."""
    hard: Bools
    priority: Ints
    """Higher goes first among jobs that nobody promised anything; mostly all the same."""
    remaining: Floats
    """Iterations left."""
    requested: Ints
    """Width a rigid policy gives, capped to the cluster."""
    requested_rate: Floats
    """Iterations per second at ``requested``."""
    width: Ints
    """Devices held now."""
    executed: Floats
    """Seconds it has held devices, over all stints."""
    attained: Floats
    """Device-seconds it has held."""
    stint_since: Floats
    """When it last got devices after having none (or last lost them, if it has none)."""
    waited_before: Floats
    """How long it waited before its present stint."""
    levels: Ints
    """(rows, L) widths worth using, ascending; padded with the last."""
    rates: Floats
    """(rows, L) iterations per second at those widths."""
    doubts: Floats
    """(rows, L) the share by which each rate may turn out lower."""
    depth: Ints
    """How many of the levels are real; at least 1."""
    start_s: Floats
    """Likely seconds without progress if it gets devices after having none, what its end takes included."""
    resize_s: Floats
    """Likely seconds without progress if it gets other devices than it has."""
    still_s: Floats
    """Likely seconds without progress on the devices it has: what is left of a start or a change, and its end."""
    reserve_s: Floats
    """Seconds by which start and end together may take longer than likely."""
    plan_at: Floats
    """(rows, PLAN_STEPS) the plan the policy last laid out: from these times on ..."""
    plan_width: Ints
    """(rows, PLAN_STEPS) ... these widths; (inf, 0) where there is none."""

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def held_rate(self) -> Floats:
        """Iterations per second at the width each row holds; zero without devices."""
        level = (self.levels == self.width[:, None]).argmax(axis=1)
        return np.where(self.width > 0, self.rates[np.arange(len(self)), level], 0.0)

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
