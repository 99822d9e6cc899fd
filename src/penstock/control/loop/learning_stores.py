"""What is known of how fast jobs run and how long they take to start: measured, predicted, or guessed.

Held under the data directory, in the stores of ``learn`` and ``predict``, which are imported when they are first
needed. Looking something up here changes nothing and asks nobody.
"""

import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.control.loop.node_choices import check_choice
from penstock.control.loop.plan_preparation import PlanPreparation, planned_scaling
from penstock.core import Cluster, Costs, Curve, NodeChoice, SavingInterval, Scaling

if TYPE_CHECKING:
    from penstock.learn import CostStore, CurveStore, SavingCosts
    from penstock.predict import PredictionCache

_GUESS = 1.0
"""Steps per second on one device for a job that was never measured; the first seconds of its run replace it."""

_HALF_LIFE_S = 60.0
"""A job that was watched for a minute outweighs what was known before: forecasts are about today's machine."""


class LearningStores:
    """Curves and costs of every job that ever ran here, by fingerprint; every tenant's are its own."""

    def __init__(self, data_dir: Path, cluster: Callable[[], Cluster], clock: Callable[[], float] = time.time) -> None:
        self.data_dir = data_dir
        self._clock = clock
        self._cluster = cluster
        self.plans = PlanPreparation(data_dir, cluster)
        self._intervals: dict[tuple[str, int], SavingInterval | None] = {}
        self._known: dict[tuple[str, tuple[str, ...], Cluster], tuple[Curve, Costs]] = {}

    @cached_property
    def speeds(self) -> "CurveStore":
        from penstock.learn import CurveStore

        return CurveStore(self.data_dir / "curves.db", half_life_s=_HALF_LIFE_S, clock=self._clock)

    @cached_property
    def delays(self) -> "CostStore":
        from penstock.learn import CostStore

        return CostStore(self.data_dir / "curves.db", clock=self._clock)

    @cached_property
    def saving(self) -> "SavingCosts":
        from penstock.learn import SavingCosts

        return SavingCosts(self.data_dir / "curves.db")

    @cached_property
    def predictions(self) -> "PredictionCache":
        from penstock.predict import PredictionCache

        return PredictionCache(self.data_dir / "predictions")

    def adopt(self, tenant: str) -> None:
        """Believe of this tenant's jobs what an earlier version has learned from all jobs there were: all were its."""
        from penstock.learn import scope_of_tenant

        for store in (self.speeds, self.delays):
            store.adopt(scope_of_tenant(tenant))

    def learned(self) -> None:
        """What was believed a moment ago may be wrong now."""
        self._known.clear()
        self._intervals.clear()

    def saving_interval(self, fingerprint: str, devices: int) -> SavingInterval | None:
        """How often a job on so many devices should save, remembered as curves are; nothing before it has saved."""
        question = (fingerprint, devices)
        if question not in self._intervals:
            self._intervals[question] = self.saving.interval(fingerprint, devices=devices)
        return self._intervals[question]

    def expected(self, fingerprint: str, kinds: tuple[str, ...]) -> tuple[Curve, Costs]:
        """Curve and costs, remembered until something is learned: a burst of the same jobs asks the same question."""
        question = (fingerprint, kinds, self._cluster())
        if question not in self._known:
            self._known[question] = self.curve(fingerprint, kinds), self.costs(fingerprint, kinds)
        return self._known[question]

    def curve(self, fingerprint: str, kinds: tuple[str, ...]) -> Curve:
        """One curve over every kind of device there is that the job can use."""
        plans = {kind: self.plans.scaling(fingerprint, kind) for kind in self.usable(kinds)}
        planned = {kind: scaling for kind, scaling in plans.items() if scaling is not None}
        return Curve(tuple((kind, self._scaling(fingerprint, kind, plans[kind])) for kind in planned or plans))

    def _scaling(self, fingerprint: str, kind: str, planned: Scaling | None) -> Scaling:
        capacity = self.capacity(kind)
        prior = planned or self.predictions.known(fingerprint, kind)
        counts = planned.counts if planned else None
        found = self.speeds.curve(fingerprint, kind, capacity, counts=counts, guess=_GUESS, prior=prior)
        return planned_scaling(planned, found, capacity) if planned else found.scalings[0][1]

    def costs(self, fingerprint: str, kinds: tuple[str, ...]) -> Costs:
        """What starting and ending takes, on the kind where that takes longest: which one it will be is not known."""
        found = [self.delays.costs(fingerprint, kind) for kind in self.usable(kinds)]
        return max(found, key=lambda costs: costs.start.likely)

    def usable(self, kinds: tuple[str, ...]) -> list[str]:
        """The kinds of device there are that a job can use; all of them if it can use none."""
        there = self._cluster().kinds
        return [kind for kind in there if not kinds or kind in kinds] or list(there)

    def check_nodes(self, choice: NodeChoice, kinds: tuple[str, ...], least: int) -> None:
        """Refuse nodes that nobody knows, or that could never hold so many devices."""
        check_choice(self._cluster(), choice, self.usable(kinds), least)

    def unmeasured(self, fingerprint: str, kinds: tuple[str, ...]) -> list[str]:
        """The usable kinds on which no job of this fingerprint has ever run."""
        return [kind for kind in self.usable(kinds) if not self.speeds.points(fingerprint, kind)]

    def capacity(self, kind: str) -> int:
        return self._cluster().capacity(kind)
