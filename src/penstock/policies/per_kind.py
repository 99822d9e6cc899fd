"""Runs a policy that looks at one kind of device at a time on a cluster of several: kind by kind, each for itself."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from penstock.core import InvariantError, Quote
from penstock.policies.base import Admission, Assignment, KindPolicy, Plans, Policy
from penstock.policies.columns import Ints
from penstock.policies.kind_view import KindView
from penstock.policies.view import View


class PerKind(Policy):
    """A :class:`KindPolicy` as a :class:`Policy`: every job stays on the kind it is bound to.

    Nothing is copied where there is one kind. O(rows) besides what the policy itself costs.
    """

    name: ClassVar[str] = "per-kind"
    summary: ClassVar[str] = "one kind of device after the other"

    def __init__(self, policy: KindPolicy, admission: Admission[KindView] | None = None) -> None:
        self.policy = policy
        self._admission = admission or policy

    def admit(self, view: View, rows: Ints) -> Sequence[Quote | None]:
        if len(view.conditions) == 1:
            return self._admission.admit(view.of_kind(0), rows)
        quotes: dict[int, Quote | None] = {}
        for kind in _decided(view):
            asked = rows[view.bound[rows] == kind]
            if len(asked):
                inside = np.searchsorted(_rows(view, kind), asked)
                quotes |= zip(asked.tolist(), self._admission.admit(view.of_kind(kind), inside), strict=True)
        return [quotes[row] for row in rows.tolist()]

    def allocate(self, view: View) -> Assignment:
        if len(view.conditions) == 1:
            decision = self.policy.allocate(view.of_kind(0))
            return Assignment(view.bound, decision.widths, (decision.wake_at,), decision.plans, missed=decision.missed)
        widths, wake_at, missed = view.width.copy(), [np.inf] * len(view.conditions), np.zeros(len(view), dtype=bool)
        plans = Plans(view.plan_at, view.plan_width, view.plan_kind)
        for kind in _decided(view):
            rows = _rows(view, kind)
            if not len(rows):
                continue
            decision = self.policy.allocate(view.of_kind(kind))
            if decision.widths.shape != rows.shape:
                raise InvariantError(f"{len(rows)} jobs but widths of shape {decision.widths.shape}")
            widths[rows] = decision.widths
            wake_at[kind] = decision.wake_at
            if decision.missed is not None:
                missed[rows] = decision.missed
            if decision.plans is not None:
                plans = _with_plans(plans, rows, decision.plans, kind)
        return Assignment(view.bound, widths, tuple(wake_at), plans, missed=missed)

    def explain(self, view: View, row: int) -> str:
        kind = int(view.bound[row])
        inside = row if len(view.conditions) == 1 else int(np.searchsorted(_rows(view, kind), row))
        return self.policy.explain(view.of_kind(kind), inside)


def _decided(view: View) -> list[int]:
    return [kind for kind, each in enumerate(view.conditions) if each.decided]


def _rows(view: View, kind: int) -> Ints:
    rows = view.rows_of(kind)
    return np.arange(len(view)) if rows is None else rows


def _with_plans(plans: Plans, rows: Ints, new: Plans, kind: int) -> Plans:
    joined = plans.copy()
    joined.at[rows], joined.width[rows], joined.kind[rows] = new.at, new.width, kind
    return joined
