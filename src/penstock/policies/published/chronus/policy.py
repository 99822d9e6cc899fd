"""The policy: admission by packing, selection at boundaries, spot devices in between."""

from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np

from penstock.core import Plan, Quote, Verdict, format_duration, percent_text
from penstock.policies.admission import IN_THE_WAY, no_deadline, promised, turned_down
from penstock.policies.base import Allocation
from penstock.policies.columns import Bools, Ints, Standing
from penstock.policies.deadline.answers import deferred
from penstock.policies.kind_view import KindView
from penstock.policies.parameters import Parameter
from penstock.policies.planned_policy import PlannedPolicy
from penstock.policies.published.chronus.leases import LeaseNeeds
from penstock.policies.published.chronus.reservations import NOBODY, Reservations
from penstock.policies.published.chronus.selection import reselected
from penstock.policies.published.chronus.spot import done_at, spot_widths


class Chronus(PlannedPolicy):
    """Leases of one length for everybody; jobs with deadlines reserve some, all others run on what is left.

    * *Admission*: a job with a deadline is accepted if it and everybody accepted before find enough leases, the latest
      ones first. A hard deadline that finds none is asked again at every boundary and runs on spot devices meanwhile; a
      soft one reserves for the first of its later deadlines that it finds leases for.
    * *Selection*: when a lease ends, a mixed-integer program proposes which deadline each soft job should keep and who
      runs next; a greedy placement has to confirm that, or decides alone.
    * *Spot devices*, those that no reservation holds now: least remaining device-time first; a job that can make no
      deadline any more comes last. Jobs are preempted for each other when a lease ends, not in between.

    After Gao et al., SoCC'21, whose text we could not read: reconstructed from its abstract and the published code.
    Ours: promises (there a job is "accepted"), bundles of leases in the program, one queue by device-time also for
    reserved jobs that wait, and that a job which cannot wait for the boundary takes the place of a costlier one. Their
    placement by reward needs speeds by how a gang is split over nodes, which a policy here does not see: best fit,
    which keeps gangs together, takes its place.
    O(jobs x leases) per decision, and again per job that is asked; one program per lease, bounded in size and time.
    """

    name: ClassVar[str] = "chronus"
    summary: ClassVar[str] = "leases: jobs with deadlines reserve some, others run on spot devices, shortest first"
    paper: ClassVar[str] = "Gao et al., SoCC'21 (reconstructed from its published code)"
    placement: ClassVar[str] = "best-fit"
    keeps_promises: ClassVar[bool] = True

    def __init__(
        self,
        lease_s: Annotated[float, Parameter("length of a lease", least=1.0)] = 1200.0,
        safety: Annotated[float, Parameter("reserve so many times the estimated run time", least=1.0)] = 1.1,
    ) -> None:
        self.lease_s = lease_s
        self.safety = safety

    def admit(self, view: KindView, rows: Ints) -> Sequence[Quote | None]:
        needs = LeaseNeeds.of(view, self.lease_s, self.safety)
        held = reservations(view, needs)
        is_boundary = needs.clock.is_new(view.slot)
        answers: dict[int, Quote | None] = {}
        for row in rows[np.lexsort((view.sequence[rows],))].tolist():
            joined = None
            if np.isfinite(view.deadline[row]) and (is_boundary or view.standing[row] == Standing.UNANSWERED):
                joined = held.joined(view, needs, row)
            held = joined or held
            answers[row] = _answer(view, needs, held, row)
        return [answers[row] for row in rows.tolist()]

    def allocate(self, view: KindView) -> Allocation:
        needs = LeaseNeeds.of(view, self.lease_s, self.safety)
        held = reservations(view, needs)
        missed = _missed(view, held)
        is_boundary = needs.clock.is_new(view.slot)
        if is_boundary:
            held = reselected(view, needs, held, leave_room=_somebody_waits(view, held))
            held = with_soft_jobs(view, needs, held)
        guaranteed = held.now
        widths = spot_widths(view, needs, guaranteed, held.step != NOBODY, is_boundary=is_boundary)
        wake_at = np.inf if (widths > 0).all() else needs.clock.boundary
        return Allocation(widths, wake_at, held.plans(view, needs.clock), missed)


def reservations(view: KindView, needs: LeaseNeeds) -> Reservations:
    """Those made before, and a place for every promised job that has none."""
    held = Reservations.kept(view, needs)
    missing = np.flatnonzero((view.standing == Standing.PROMISED) & (held.step == NOBODY))
    for row in missing[np.argsort(view.sequence[missing])].tolist():
        held = held.joined(view, needs, row) or held
    return held


def with_soft_jobs(view: KindView, needs: LeaseNeeds, held: Reservations) -> Reservations:
    """Soft jobs whose value falls in steps reserve for the best one they find leases for, the cheapest first."""
    stepped = np.isfinite(view.step_at[:, 1]) & (held.step == NOBODY) & (view.standing >= Standing.ADMITTED)
    rows = np.flatnonzero(stepped)
    for row in rows[np.argsort((needs.seconds * view.requested)[rows], kind="stable")].tolist():
        steps = np.flatnonzero(needs.until[row] > 0)
        held = held.with_row(view, needs, row, steps) or held
    return held


def _missed(view: KindView, held: Reservations) -> Bools:
    return np.asarray((view.standing == Standing.PROMISED) & (held.step == NOBODY))


def _somebody_waits(view: KindView, held: Reservations) -> bool:
    waits = (view.width == 0) & np.isfinite(view.deadline) & (held.step == NOBODY)
    return bool(waits.any())


def _answer(view: KindView, needs: LeaseNeeds, held: Reservations, row: int) -> Quote | None:
    name, deadline = view.jobs[row].id, float(view.deadline[row])
    if not np.isfinite(deadline):
        return no_deadline(name)
    if held.step[row] == 0:
        end = held.end_of(row, needs.clock)
        width = int(view.requested[row])
        leases = int(np.count_nonzero(held.taken[row]))
        plan = Plan(((end - leases * needs.clock.length, width),), end)
        return promised(name, deadline, plan, min(end, deadline))
    last_chance = deadline - float(done_at(view, needs, 0.0)[row])
    if view.hard[row] and last_chance >= view.now:
        return None if view.standing[row] == Standing.DEFERRED else deferred(
            name, view.now, last_chance, np.inf, IN_THE_WAY
        )  # fmt: skip
    if np.isfinite(view.step_at[row, 1]):
        return _soft_answer(view, needs, row)
    return turned_down(name, view.now - last_chance, hard=False, offer=np.inf)


def _soft_answer(view: KindView, needs: LeaseNeeds, row: int) -> Quote:
    """The most that a soft job which cannot be promised its first deadline may still be worth."""
    soonest = done_at(view, needs, view.now)
    worth = float(view.value_when_done(soonest)[row])
    what = f"worth {percent_text(worth)} if it begins now" if worth else "worth nothing any more by its own goal"
    return Quote(
        job_id=view.jobs[row].id, verdict=Verdict.BEST_EFFORT,
        reason=f"{IN_THE_WAY}; {what}, {format_duration(float(soonest[row]) - view.now)} from now; it runs when it can",
    )  # fmt: skip
