"""What was decided at one moment, complete: whoever holds the state before can have the state after without asking.

A decision is plain data. Carrying it out needs no policy, no placement, no cost model and no rate model, so a log of
events and decisions can be read by any later version, whatever its policies would decide today.
"""

from dataclasses import dataclass

from penstock.core.promises import Grant, Quote


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Everything that changes at ``at`` because somebody decided; jobs are named by their ids.

    A decision is about some kinds of devices (those whose time had come) and leaves the others alone. Only what changes
    is in it: a job whose answer, devices, rate and plan stay as they are does not appear.
    """

    at: float
    wake_at: tuple[tuple[str, float], ...]
    """The kinds decided about, each with the time by which it wants to be decided about again (inf = never)."""
    quotes: tuple[Quote, ...] = ()
    """Answers that are new or whose verdict changed, in the order in which they are given."""
    suspended: tuple[str, ...] = ()
    """Jobs that lose their devices."""
    reasons: tuple[tuple[str, str], ...] = ()
    """Why jobs lose their devices: for whom, and when they are expected to go on."""
    grants: tuple[Grant, ...] = ()
    """Jobs that get other devices than they had: they start, resume, grow, shrink or move."""
    rates: tuple[tuple[str, float], ...] = ()
    """Iterations per second of running jobs, where that is not what the curve says for their grant."""
    pauses: tuple[tuple[str, float], ...] = ()
    """Seconds that a job stands still because of this decision."""
    plans: tuple[tuple[str, tuple[tuple[float, int], ...]], ...] = ()
    """Plans that changed, as (from when, how many devices) steps; no steps: the plan is given up."""
    plan_kinds: tuple[tuple[str, str], ...] = ()
    """The kind of device of plans that are for another kind than the plan before them."""
