"""What tenants and groups of them are guaranteed and may hold at most, as a decision has to respect it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.policies.columns import Floats, Ints


@dataclass(frozen=True, eq=False)
class TenantBounds:
    """Positions are those of :class:`~penstock.policies.TenantTable`; a group stands for all its members together."""

    parent: Ints
    """The group of each; -1 without one."""
    guaranteed: Ints
    """Devices that come back when they are asked for; of a group at least what its members are guaranteed."""
    ceiling: Floats
    """Devices that may be held at once; infinite without a limit."""
    unlent: Ints
    """Devices that nobody else uses, even if they are idle."""

    @cached_property
    def lineages(self) -> tuple[tuple[int, ...], ...]:
        """For each position itself and the groups around it, the outermost last."""
        parents = self.parent.tolist()
        found: list[tuple[int, ...]] = []
        for position in range(len(parents)):
            line, up = [position], parents[position]
            while up >= 0:
                line.append(up)
                up = parents[up]
            found.append(tuple(line))
        return tuple(found)

    @cached_property
    def bounded(self) -> tuple[int, ...]:
        """The positions that have a guarantee or a ceiling, groups before their members."""
        own = np.flatnonzero((self.guaranteed > 0) | np.isfinite(self.ceiling)).tolist()
        return tuple(sorted(own, key=lambda position: len(self.lineages[position])))

    @cached_property
    def within(self) -> Floats:
        """(positions, positions) 1 where the second is the first or in the group that the first is."""
        inside = np.zeros((len(self.parent), len(self.parent)))
        for position, line in enumerate(self.lineages):
            inside[list(line), position] = 1.0
        return inside

    def totals(self, tenant: Ints, devices: Ints | Floats) -> Floats:
        """Devices of each position, a group's with those of all its members."""
        return np.asarray(self.within @ np.bincount(tenant, weights=devices, minlength=len(self.parent)))
