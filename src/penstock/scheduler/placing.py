"""From widths to devices: confined jobs are seated first, then wishes are granted, and the strategy places the rest."""

from collections.abc import Mapping, Sequence

from penstock.placement import Ask, Placement, Shares, seat_preferred, take_seats
from penstock.policies import Assignment, Ints, View
from penstock.scheduler.holdings import Holdings
from penstock.scheduler.kinds import KindState
from penstock.scheduler.node_seats import NodeSeats

Devices = dict[int, tuple[int, ...]]
"""What jobs hold from now on, by key."""


def place(
    strategy: Placement, holdings: Holdings, view: View, assignment: Assignment, wanting: Ints, seats: NodeSeats
) -> list[tuple[int, str, tuple[int, ...]]]:
    """Devices for every row that shall hold others than it does, and for whoever is moved besides."""
    grants: list[tuple[int, str, tuple[int, ...]]] = []
    for position, state in enumerate(holdings.kinds.values()):
        rows = wanting if len(holdings.kinds) == 1 else wanting[assignment.kinds[wanting] == position]
        widths = {int(view.sequence[row]): int(assignment.widths[row]) for row in rows.tolist()}
        if not widths:
            continue
        placed, shares = Devices(), seats.seats(view, assignment, position)
        state.occupancy.pinned |= {*shares, *holdings.confined}
        if shares:
            kept = {int(key) for key in view.sequence[seats.staying(view, assignment)]}
            state.occupancy.pinned |= kept  # the shares count on it
            placed = _seat_confined(strategy, state, shares, kept, widths)
        asks = [_ask(state, key, width) for key, width in widths.items() if key not in placed]
        placed |= seat_preferred(state.occupancy, asks, _wishes(holdings, asks))
        asks = [ask for ask in asks if ask.key not in placed]
        placed |= strategy.place(state.occupancy, asks) if asks else {}
        grants.extend((key, state.kind, devices) for key, devices in placed.items())
    return grants


def _seat_confined(
    strategy: Placement, state: KindState, shares: Mapping[int, Shares], kept: set[int], widths: dict[int, int]
) -> Devices:
    """Seat confined jobs by their shares; who has to make way for them joins ``widths``, to be placed again."""
    occupancy = state.occupancy
    narrower = [
        _ask(state, key, width) for key, width in widths.items() if key not in shares and width < occupancy.width(key)
    ]
    placed = strategy.place(occupancy, narrower) if narrower else {}
    held = {key: occupancy.parts(key) for key in shares}
    seated = {
        key: share
        for key, share in shares.items()
        if key in widths or {node: mask.bit_count() for node, mask in held[key].items()} != share
    }
    for key in seated:
        occupancy.release(key)
    before = {key: occupancy.width(key) for key in occupancy.keys()}  # noqa: SIM118
    for key in take_seats(occupancy, seated, held, before.keys() - shares.keys() - kept):
        widths.setdefault(key, before[key])
        placed.pop(key, None)
    return placed | {key: occupancy.devices(key) for key in seated}


def _ask(state: KindState, key: int, width: int) -> Ask:
    return Ask(key, width, state.occupancy.devices(key))


def _wishes(holdings: Holdings, asks: Sequence[Ask]) -> dict[int, list[int]]:
    """The nodes that jobs would rather run on, by position, of those that are there."""
    wished = {ask.key: nodes for ask in asks if (nodes := holdings.records[ask.key].job.nodes).prefer}
    return {key: nodes.preferred(holdings.cluster) for key, nodes in wished.items()}
