"""Planning loops compiled before the first request waits for them.

The first decision after an installation compiles them, which takes longer than a client waits for an answer; every
later start reads them from the disk. So a server plays a few made-up jobs before it says where it listens, and its log
says what it is doing where that takes longer than reading.
"""

import logging
import threading

from penstock.core import ANY_KIND, BestEffort, Cluster, Curve, Deadline, Job, Scaling, Work
from penstock.policies import policy_named
from penstock.simulate import simulate

_log = logging.getLogger(__name__)
_HOUR_S = 3600.0
_READ_WITHIN_S = 3.0


def load_loops(policy: str) -> None:
    """Let ``policy`` admit, refuse, plan, widen and shrink jobs on a cluster that does not exist."""
    note = threading.Timer(_READ_WITHIN_S, _log.info, ["compiling planning loops; later starts find them on the disk"])
    note.start()
    try:
        simulate(_jobs(), Cluster.parse("2x2"), policy_named(policy), slot=0.0)
    finally:
        note.cancel()


def _jobs() -> list[Job]:
    curve = Curve(((ANY_KIND, Scaling(counts=(1, 2, 4), rates=(1.0, 1.9, 3.4))),))
    goals: tuple[BestEffort | Deadline, ...] = (BestEffort(), Deadline(_HOUR_S), Deadline(2 * _HOUR_S), Deadline(60.0))
    return [
        Job(id=f"warm-up-{number}", work=Work(900.0), curve=curve, goal=goal, submitted_at=10.0 * number)
        for number, goal in enumerate(goals)
    ]
