"""Nodes that are about to leave: their jobs save their state and go elsewhere while there is still time.

A lease that is known to end is planned for like everything else. Some seconds before its end a node counts as gone;
jobs on it are moved or suspended as for any other decision, so they lose no work. Jobs that cannot resume, jobs that
may run nowhere else, and jobs that end in time stay until the node is lost.
"""

from collections.abc import Sequence

import numpy as np

from penstock.policies import Assignment, Ints, View
from penstock.scheduler.holdings import Holdings
from penstock.scheduler.kinds import KindState


class Leaving:
    """The nodes of a decision that leave too soon to be used, by kind."""

    def __init__(self, holdings: Holdings, now: float, kinds: Sequence[str]) -> None:
        self._holdings = holdings
        self._kinds = kinds
        self._nodes = {kind: state.closing(now) for kind, state in holdings.kinds.items()}

    def devices(self, kind: str) -> int:
        """Working devices of a kind that count as gone."""
        sizes = self._holdings.kinds[kind].occupancy.size_per_node
        return sum(int(sizes[position]) for position in self._nodes[kind])

    def moving(self, view: View, assignment: Assignment) -> Ints:
        """Rows that keep their width but not their devices. O(jobs on such nodes)."""
        if not any(self._nodes.values()):
            return np.zeros(0, dtype=np.int64)
        row_of = {key: row for row, key in enumerate(view.sequence.tolist())}
        rows = [row_of[key] for kind in self._kinds for key in self._movable(self._holdings.kinds[kind], kind)
                if key in row_of]  # fmt: skip
        same = [row for row in rows if assignment.widths[row] == view.width[row] > 0
                and assignment.kinds[row] == view.bound[row]]  # fmt: skip
        return np.array(sorted(same), dtype=np.int64)

    def close(self, view: View, wanting: Ints) -> None:
        """Take those who get other devices off these nodes, and keep everyone from their free devices."""
        keys = set(view.sequence[wanting].tolist())
        for kind in self._kinds:
            state = self._holdings.kinds[kind]
            for key in self._held(state, kind) & keys:
                state.occupancy.release(key)
            for position in self._nodes[kind]:
                if free := state.occupancy.mask(position):
                    state.occupancy.assign(_placeholder(position), {position: free})
                    state.occupancy.pinned |= {_placeholder(position)}

    def reopen(self) -> None:
        """What was kept from everyone is free again, so that only the grants are on trial."""
        for kind in self._kinds:
            for position in self._nodes[kind]:
                self._holdings.kinds[kind].occupancy.release(_placeholder(position))

    def _held(self, state: KindState, kind: str) -> set[int]:
        return {key for position in self._nodes[kind] for key in state.occupancy.holders(position)}

    def _movable(self, state: KindState, kind: str) -> list[int]:
        """Jobs that lose work if they stay, and can go on elsewhere."""
        table, found = self._holdings.table, []
        for key in sorted(self._held(state, kind)):
            row, record = table.row_of[key], self._holdings.records[key]
            until = min(
                state.until[position] for position in self._nodes[kind] if key in state.occupancy.holders(position)
            )
            if record.job.resumable and key not in self._holdings.confined and table.finish_at[row] > until:
                found.append(key)
        return found


def _placeholder(position: int) -> int:
    """Who holds the free devices of a node that is closed; keys of jobs are not negative."""
    return -1 - position
