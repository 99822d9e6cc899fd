"""Where confined jobs find their devices in a decision: who stays, who can be moved aside, and who waits for whom."""

import math
from collections.abc import Iterator, Mapping

import numpy as np

from penstock.core import NodeChoice
from penstock.placement import ConfinedAsk, Crowd, Occupancy, Seating, Shares
from penstock.policies import Assignment, Bools, Ints, RowCrowd, Standing, View, safe_end
from penstock.scheduler.holdings import Holdings
from penstock.scheduler.kinds import KindState
from penstock.scheduler.leaving import Leaving

_Turn = tuple[int, int]
"""A place in line: who has a higher priority comes first, then who came first."""


class NodeSeats:
    """The places of one decision; nothing of the holdings is changed.

    A job that keeps its width stays where it is if it was promised something or begins again elsewhere; others are
    moved aside for confined ones. Nodes that somebody waits for are kept clear of those who could not be moved later.
    While nodes are known to leave, a job with a deadline that cannot resume counts as confined to those that stay until
    its end. Nodes that are about to leave have no room.
    """

    def __init__(self, holdings: Holdings, leaving: Leaving) -> None:
        self._holdings = holdings
        self._leaving = leaving
        self._nodes: dict[NodeChoice, frozenset[int]] = {}
        self._cleared: list[tuple[_Turn, frozenset[int]]] = []
        self._keys: Ints | None = None
        self._row_of: dict[int, int] = {}

    def confined(self, view: View) -> Bools:
        keys = self._holdings.confined
        confined = np.isin(view.sequence, list(keys)) if keys else np.zeros(len(view), dtype=bool)
        if any(state.until for state in self._holdings.kinds.values()):
            begins_again = np.array([not job.resumable for job in view.jobs], dtype=bool)
            confined |= begins_again & np.isfinite(view.deadline)
        return confined

    def crowd(self, view: View, decided: Assignment) -> RowCrowd | None:
        for kind in range(len(view.conditions)):
            crowd, _ = self._seated(view, decided, kind)
            if crowd is not None:
                return self._asked_again(view, decided, crowd, kind)
        return None

    def seats(self, view: View, decided: Assignment, kind: int) -> Mapping[int, Shares]:
        """How many devices of which node they get who may not have any, by key; those who stay are not in it."""
        return self._seated(view, decided, kind)[1] if self._cleared or self.confined(view).any() else {}

    def staying(self, view: View, decided: Assignment) -> Bools:
        """Who keeps its very devices."""
        stays = _keeping(view, decided) & _immovable(view)
        if self._leaving.going:
            stays &= ~np.isin(view.sequence, list(self._leaving.going))
        return stays

    def stays_until(self, view: View, row: int) -> float:
        state, key = self._kind(int(view.bound[row])), int(view.sequence[row])
        return min((state.gone_at(position) for position in state.occupancy.parts(key)), default=math.inf)

    def room(self, view: View, row: int, taken: Mapping[int, int], until: float) -> int:
        kind, fixed = int(view.bound[row]), _immovable(view)
        fixed[row] = False
        for other, width in taken.items():
            fixed[other] = width == view.width[other]
        free = self._without(view, kind, fixed)
        seating = Seating(free, free)
        moved = [(other, n, safe_end(view, other, n)) for other, n in taken.items() if n and not fixed[other]]
        seating.seat_all([self._ask(view, other, kind, n, end) for other, n, end in moved])
        return seating.most_for(self._ask(view, row, kind, int(free.sum()), until))

    def blocked(self, view: View, decided: Assignment) -> Ints:
        """Only jobs that name their nodes: who avoids some finds others in its turn."""
        stays = self.staying(view, decided)
        waiting = self.confined(view) & (decided.widths == 0) & (view.standing != Standing.PROMISED)
        rows = [row for row in np.flatnonzero(waiting).tolist() if view.jobs[row].nodes.only]
        least = view.narrowest
        found = [row for row in rows if self._cleared_room(view, row, stays) < least[row] <= self.working(view, row)]
        return np.array(found, dtype=np.int64)

    def keep_clear(self, view: View, rows: Ints) -> None:
        self._cleared = [(_turn(view, row), self.nodes(view.jobs[row].nodes)) for row in rows.tolist()]

    def working(self, view: View, row: int) -> int:
        """Devices that work on the nodes of a row."""
        return self._cleared_room(view, row, np.zeros(len(view), dtype=bool))

    def blockers(self, view: View, row: int) -> dict[int, int]:
        """The rows that hold devices of its nodes and are not moved for it, with how many they hold there."""
        occupancy, immovable, found = self._occupancy(int(view.bound[row])), _immovable(view), dict[int, int]()
        for node in sorted(self.nodes(view.jobs[row].nodes)):
            for key, mask in occupancy.holders(node).items():
                other = self._rows(view).get(key, row)
                if other != row and immovable[other]:
                    found[other] = found.get(other, 0) + mask.bit_count()
        return found

    def nodes(self, choice: NodeChoice) -> frozenset[int]:
        """The positions of the nodes that a choice allows."""
        if choice not in self._nodes:
            self._nodes[choice] = frozenset(choice.positions(self._holdings.cluster))
        return self._nodes[choice]

    def _cleared_room(self, view: View, row: int, stays: Bools) -> int:
        free = self._without(view, int(view.bound[row]), stays)
        return int(free[sorted(self.nodes(view.jobs[row].nodes))].sum())

    def _seated(self, view: View, decided: Assignment, kind: int) -> tuple[Crowd | None, Mapping[int, Shares]]:
        asks = list(self._asks(view, decided, kind))
        if not asks:
            return None, {}
        unasked = np.isin(view.sequence, [ask.key for ask in asks], invert=True)
        room = self._without(view, kind, self.staying(view, decided))
        seating = Seating(room, self._without(view, kind, _keeping(view, decided) & unasked))
        promised = [ask for ask in asks if view.standing[self._rows(view)[ask.key]] == Standing.PROMISED]
        crowd = seating.seat_all(promised) or seating.seat_all([ask for ask in asks if ask not in promised])
        return crowd, seating.shares

    def _asks(self, view: View, decided: Assignment, kind: int) -> Iterator[ConfinedAsk]:
        """Those who may not have any device and do not stay where they are, in the order of their turns."""
        limited = self.confined(view) | (_unmovable_newcomers(view) if self._cleared else False)
        moving = (decided.kinds == kind) & (decided.widths > 0) & ~self.staying(view, decided)
        rows = np.flatnonzero(moving & limited).tolist()
        for row in sorted(rows, key=lambda row: _turn(view, row)):
            width, is_kept = int(decided.widths[row]), view.standing[row] == Standing.PROMISED
            yield self._ask(view, row, kind, width, safe_end(view, row, width) if is_kept else view.now)

    def _ask(self, view: View, row: int, kind: int, width: int, until: float) -> ConfinedAsk:
        """On nodes that stay ``until`` then."""
        choice, key, held = view.jobs[row].nodes, int(view.sequence[row]), dict[int, int]()
        nodes = self.nodes(choice)
        if self._cleared and _unmovable_newcomers(view)[row]:
            nodes = self._elsewhere(view, row, kind, width)
        state = self._kind(kind)
        nodes -= {position for position in state.until if state.gone_at(position) < until}
        if view.bound[row] == kind:
            held = {node: mask.bit_count() for node, mask in self._occupancy(kind).parts(key).items()}
        return ConfinedAsk(key, width, nodes, held, frozenset(choice.preferred(self._holdings.cluster)))

    def _elsewhere(self, view: View, row: int, kind: int, width: int) -> frozenset[int]:
        """Off the nodes that others wait for whose turn is before its own, if it could run elsewhere at all."""
        nodes = self.nodes(view.jobs[row].nodes)
        waited = [cleared for turn, cleared in self._cleared if turn < _turn(view, row)]
        left = nodes.difference(*waited)
        return left if int(self._occupancy(kind).size_per_node[sorted(left)].sum()) >= width else nodes

    def _without(self, view: View, kind: int, rows: Bools) -> Ints:
        """Devices of each node that work, without those that some rows hold."""
        occupancy, row_of = self._occupancy(kind), self._rows(view)
        free = occupancy.size_per_node.copy()
        for key in occupancy.keys():  # noqa: SIM118
            if key in row_of and rows[row_of[key]]:
                for node, mask in occupancy.parts(key).items():
                    free[node] -= mask.bit_count()
        free[list(self._leaving.nodes[self._kind(kind).kind])] = 0
        return free

    def _kind(self, kind: int) -> KindState:
        return list(self._holdings.kinds.values())[kind]

    def _occupancy(self, kind: int) -> Occupancy:
        return self._kind(kind).occupancy

    def _rows(self, view: View) -> dict[int, int]:
        """Where jobs are in the view, by key; who is refused in this decision holds devices still, and is not there."""
        if self._keys is not view.sequence:
            self._keys, self._row_of = view.sequence, {key: row for row, key in enumerate(view.sequence.tolist())}
        return self._row_of

    def _asked_again(self, view: View, decided: Assignment, crowd: Crowd, kind: int) -> RowCrowd:
        """The rows of a crowd without those who were promised their devices, if there are others."""
        rows = np.array([self._rows(view)[key] for key in crowd.keys], dtype=np.int64)
        promised = view.standing[rows] == Standing.PROMISED
        if promised.all():
            return RowCrowd(rows, kind, crowd.room)
        return RowCrowd(rows[~promised], kind, max(crowd.room - int(decided.widths[rows[promised]].sum()), 0))


def _turn(view: View, row: int) -> _Turn:
    return -int(view.priority[row]), int(view.sequence[row])


def _immovable(view: View) -> Bools:
    """Who holds devices and is not moved to others without need."""
    return np.asarray((view.width > 0) & ((view.standing == Standing.PROMISED) | ~view.resumable))


def _keeping(view: View, decided: Assignment) -> Bools:
    """Who holds as many devices as before."""
    return np.asarray((decided.widths == view.width) & (decided.kinds == view.bound) & (view.width > 0))


def _unmovable_newcomers(view: View) -> Bools:
    return np.asarray((view.width == 0) & ~view.resumable & (view.standing != Standing.PROMISED))
