"""Why a confined job holds nothing, in words: for which nodes it waits, and for whom."""

from penstock.policies import Standing, View
from penstock.scheduler.node_seats import NodeSeats
from penstock.scheduler.preemption import named_job

_NAMED = 3
"""So many of those who are in the way are named."""


def waiting_for(seats: NodeSeats, view: View, row: int) -> str:
    """What has to happen on its nodes before it can run. O(devices)."""
    nodes, least = view.jobs[row].nodes, int(view.narrowest[row])
    devices = "1 device" if least == 1 else f"{least} devices"
    needs, working = f"it runs {nodes} and needs {devices} there", seats.working(view, row)
    if working < least:
        return f"{needs}: {working} of these nodes' devices are in use, the others are drained, lost or broken"
    blockers = seats.blockers(view, row)
    if working - sum(blockers.values()) >= least:
        return f"{needs}: nobody who would stay is in its way, its turn has not come"
    first = sorted(blockers, key=lambda other: (-blockers[other], int(view.sequence[other])))
    whom = [f"{named_job(view, row, other)} ({_held(view, other, blockers[other])})" for other in first[:_NAMED]]
    more = [f"{len(first) - _NAMED} more"] if len(first) > _NAMED else []
    return f"{needs}, which are held by {' and '.join([*whom, *more])}"


def _held(view: View, other: int, count: int) -> str:
    promised = view.standing[other] == Standing.PROMISED
    return f"{count}, {'promised' if promised else 'cannot resume elsewhere'}"
