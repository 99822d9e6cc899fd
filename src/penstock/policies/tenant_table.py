"""Whom jobs are accounted to, as every view shows it: shares, quotas, groups, and the fairness of the last day."""

from dataclasses import dataclass

import numpy as np

from penstock.policies.columns import Floats, Ints
from penstock.policies.fairness import quotient


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TenantTable:
    """Whom jobs are accounted to; the column ``tenant`` of the view holds positions in these.

    Groups of tenants are there too. They have no jobs of their own: what is said of jobs is zero for them.
    """

    names: tuple[str, ...]
    groups: Ints
    """The position of the group each belongs to; -1 without one."""
    shares: Floats
    """What each counts for among its siblings."""
    quotas: Floats
    """Devices that are its own: the scheduler sees to it that they come back when its jobs ask."""
    limits: Floats
    """Devices a tenant may hold at once; infinite without a limit. No policy has to look at it."""
    held: Ints
    """Devices its jobs hold now."""
    wanted: Ints
    """Devices that its jobs could use now."""
    attained: Floats
    """Device-seconds its jobs have held, those of jobs that are over included."""
    entitled: Floats
    """Devices its share of all that work comes to now, through its groups."""
    used_lately: Floats
    """Device-seconds of the last day that its jobs held, ..."""
    deserved_lately: Floats
    """... that it deserved, ..."""
    entitled_lately: Floats
    """... that its share came to, ..."""
    best_effort_lately: Floats
    """... and that its jobs without a deadline alone deserved."""

    @property
    def fairness(self) -> Floats:
        """Long-term fairness: what was used lately over what was deserved; 1 where nothing was."""
        return quotient(self.used_lately, self.deserved_lately)

    def fair_devices(self, capacity: float) -> Floats:
        """Devices of each tenant if so many went by share as far as they can be used.

        What a member of a group leaves goes to the others in its group, and only what they leave to everybody else.
        O(tenants log tenants).
        """
        wanted = np.minimum(self.wanted, self.limits)
        for position in _innermost_first(self.groups):
            group = int(self.groups[position])
            if group >= 0:
                wanted[group] = min(wanted[group] + wanted[position], self.limits[group])
        fair, members = np.zeros(len(self.names)), _members(self.groups)
        for group in (-1, *reversed(_innermost_first(self.groups))):
            if (inside := members.get(group)) is not None:
                whole = capacity if group < 0 else fair[group]
                fair[inside] = filled(whole, self.shares[inside], wanted[inside])
        fair[[group for group in members if group >= 0]] = 0.0
        return fair


def filled(total: float, weights: Floats, wanted: Floats) -> Floats:
    """So much by weight, to nobody more than wanted: what some leave goes to the others by weight.

    >>> filled(12.0, np.array([1.0, 1.0, 2.0]), np.array([1.0, 9.0, 9.0])).round(2).tolist()
    [1.0, 3.67, 7.33]
    """
    order = np.argsort(wanted / weights, kind="stable")
    given, left, weight = np.zeros(len(weights)), max(total, 0.0), float(weights.sum())
    for at in order.tolist():
        given[at] = min(float(wanted[at]), left * float(weights[at]) / weight) if weight > 0 else 0.0
        left -= given[at]
        weight -= float(weights[at])
    return given


def _members(groups: Ints) -> dict[int, list[int]]:
    members: dict[int, list[int]] = {}
    for position, group in enumerate(groups.tolist()):
        members.setdefault(group, []).append(position)
    return members


def _innermost_first(groups: Ints) -> list[int]:
    """Positions in such an order that members come before their group."""
    members, order = _members(groups), list[int]()
    left = list(members.get(-1, []))
    while left:
        position = left.pop()
        order.append(position)
        left.extend(members.get(position, []))
    return order[::-1]
