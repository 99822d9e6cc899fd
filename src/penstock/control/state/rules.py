"""A scheduler under the rules that a configuration names.

A log may name a policy that this version no longer has. That must not keep anybody from reading the log: what was
decided stands in it, and only the next decision needs a policy that is there.
"""

from collections.abc import Sequence
from typing import Any, NoReturn

from penstock.control.state.entries import Configured
from penstock.core import Cluster, PenstockError, Quote, UnknownNameError
from penstock.policies import (
    STINT_COSTS,
    Allocation,
    AnyPolicy,
    Ints,
    KindPolicy,
    KindView,
    MeasureFirst,
    policy_named,
)
from penstock.scheduler import ExpectedCosts, Scheduler


class RetiredPolicy(KindPolicy):
    """Stands where a policy stood that is no longer there; asked to decide, it says so. Promises stay as they are."""

    name = "retired"
    summary = "stands for a policy that this version does not have"
    keeps_promises = True

    def __init__(self, why: Exception) -> None:
        self._why = why

    def admit(self, view: KindView, rows: Ints) -> Sequence[Quote]:  # noqa: ARG002
        self._refuse()

    def allocate(self, view: KindView) -> Allocation:  # noqa: ARG002
        self._refuse()

    def explain(self, view: KindView, row: int) -> str:  # noqa: ARG002
        return f"nothing is decided: {self._why}"

    def _refuse(self) -> NoReturn:
        raise PenstockError(f"nothing can be decided: {self._why}") from self._why


def new_scheduler(settings: Configured, *, stint_costs: float = STINT_COSTS) -> Scheduler:
    """One without jobs, on the nodes that the configuration begins with."""
    cluster, policy = Cluster(settings.nodes), _policy(settings.policy)
    return Scheduler(cluster, policy, slot=settings.slot, stint_costs=stint_costs, **_rules(settings))


def take_up(scheduler: Scheduler, settings: Configured) -> None:
    """Other rules for a scheduler with jobs."""
    scheduler.reconfigure(settings.at, _policy(settings.policy), slot=settings.slot, **_rules(settings))


def scheduler_from_data(data: dict[str, Any], settings: Configured) -> Scheduler:
    """The scheduler that was put away as data, under its rules."""
    return Scheduler.from_data(data, _policy(settings.policy), **_rules(settings))


def _rules(settings: Configured) -> dict[str, Any]:
    admission = MeasureFirst(_policy(settings.policy))
    return {"admission": admission, "costs": ExpectedCosts(settings.overhead)}


def _policy(name: str) -> AnyPolicy:
    try:
        return policy_named(name)
    except UnknownNameError as error:
        return RetiredPolicy(error)
