"""Nodes that are about to leave: their jobs save their state and go elsewhere while there is still time.

A lease that is known to end is planned for like everything else. Some seconds before its end a node counts as gone:
jobs on it are moved or suspended as by any other decision, so they lose no work; a job that cannot resume begins again
then, as it would when the node is lost. Only a job that ends before its node leaves stays.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from penstock.policies import Assignment, ColumnSource, Ints, ReplacedColumns, View
from penstock.scheduler.holdings import Holdings


class Leaving:
    """The nodes of a decision that leave too soon to be used, by kind, and the jobs on them, by key."""

    def __init__(self, holdings: Holdings, now: float, kinds: Sequence[str]) -> None:
        self._holdings = holdings
        self._kinds = kinds
        self.nodes = {kind: state.closing(now) for kind, state in holdings.kinds.items()}
        self.staying: set[int] = set()
        """Jobs that end before their node leaves."""
        self.going: set[int] = set()
        """Jobs that would be stopped by its end."""
        self._kept: dict[int, int] = {}
        """Devices of such nodes that stay with their jobs, as masks."""
        for kind, positions in self.nodes.items():
            for position in positions:
                self._sort_holders(kind, position)
        for kind, positions in self.nodes.items():
            self._kept |= {position: self._mask_of_staying(kind, position) for position in positions}

    def _sort_holders(self, kind: str, position: int) -> None:
        table, state = self._holdings.table, self._holdings.kinds[kind]
        for key in state.occupancy.holders(position):
            is_late = table.finish_at[table.row_of[key]] > state.until[position]
            (self.going if is_late or key in self.going else self.staying).add(key)
        self.staying -= self.going

    def _mask_of_staying(self, kind: str, position: int) -> int:
        holders = self._holdings.kinds[kind].occupancy.holders(position)
        return sum(mask for key, mask in holders.items() if key in self.staying)

    def devices(self, kind: str) -> int:
        """Working devices of a kind that count as gone."""
        sizes = self._holdings.kinds[kind].occupancy.size_per_node
        return sum(int(sizes[position]) - self._kept[position].bit_count() for position in self.nodes[kind])

    def shown(self, columns: ColumnSource, sequence: Ints) -> ColumnSource:
        """The columns in which a job that cannot resume and has to go has lost its work already: it may be resized."""
        if not self.going:
            return columns
        lost = np.isin(sequence, list(self.going)) & ~columns["resumable"]
        remaining = np.where(lost, columns["whole"], columns["remaining"])
        return ReplacedColumns(columns, {"resumable": columns["resumable"] | lost, "remaining": remaining})

    def fitted(self, view: View, assignment: Assignment) -> Assignment:
        """Under a policy that stops no job, those that have to go wait for devices elsewhere: the latest first."""
        if not self.going:
            return assignment
        widths, going = assignment.widths.copy(), np.isin(view.sequence, list(self.going))
        for kind, here in enumerate(view.conditions):
            mine = (assignment.kinds == kind) & (widths > 0)
            for row in sorted(np.flatnonzero(mine & going).tolist(), key=lambda row: -int(view.sequence[row])):
                if int(widths[mine].sum()) > here.capacity:
                    widths[row] = 0
        return replace(assignment, widths=widths)

    def moving(self, view: View, assignment: Assignment) -> Ints:
        """Rows that keep their width but not their devices."""
        if not self.going:
            return np.zeros(0, dtype=np.int64)
        same = (assignment.widths == view.width) & (view.width > 0) & (assignment.kinds == view.bound)
        return np.flatnonzero(same & np.isin(view.sequence, list(self.going)))

    def close(self, view: View, wanting: Ints) -> None:
        """Take those who get other devices off these nodes, and keep every job from the devices that are gone."""
        keys = set(view.sequence[wanting].tolist())
        for kind in self._kinds:
            occupancy = self._holdings.kinds[kind].occupancy
            for key in {key for position in self.nodes[kind] for key in occupancy.holders(position)} & keys:
                occupancy.release(key)
            for position in self.nodes[kind]:
                if gone := occupancy.mask(position) & ~self._kept[position]:
                    occupancy.assign(_placeholder(position), {position: gone})
                    occupancy.pinned |= {_placeholder(position)}

    def reopen(self) -> None:
        """What was kept from every job is free again, so that only the grants are on trial."""
        for kind in self._kinds:
            for position in self.nodes[kind]:
                self._holdings.kinds[kind].occupancy.release(_placeholder(position))


def _placeholder(position: int) -> int:
    """Who holds the free devices of a node that is closed; keys of jobs are not negative."""
    return -1 - position
