"""One replay of a past under a scenario: the same scheduler as live, in the world of the past."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.core import LATE_TOLERANCE_S, Cluster
from penstock.policies import MeasureFirst, policy_named
from penstock.scheduler import ExpectedCosts, Scheduler
from penstock.simulate.forward import play_forward
from penstock.simulate.ledger import Ledger
from penstock.simulate.outcomes import Fate, JobOutcome
from penstock.simulate.timeline import Timeline
from penstock.simulate.whatif.past import Past, PastRules
from penstock.simulate.whatif.scenario import Scenario
from penstock.simulate.whatif.world import PastWorld

_LOOKS = 100
"""How often fairness is looked at from the beginning to the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a past amounts to, as it was or replayed. Seconds; NaN where there is nothing to average.

    Completion and waiting are those of jobs that really finished, as far as they finished here too.
    """

    finished: int
    refused: int
    promised: int
    kept: int
    broken: int
    completion_mean_s: float
    completion_p90_s: float
    waiting_mean_s: float
    device_seconds: float
    """Held between the beginning and the end of the past."""
    use: float
    """The share of all device-seconds there were then."""
    resizes: int
    suspensions: int
    fairness: float = math.nan
    """Long-term fairness of the tenant that fared worst, over time; NaN of what nobody replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedPast:
    """What became of a past under a scenario."""

    label: str
    figures: Figures
    outcomes: dict[str, JobOutcome]


def replay_past(past: Past, scenario: Scenario, *, validate: bool = False) -> ReplayedPast:
    """Live through the past once more. O(what the policy costs per decision, times the decisions)."""
    cluster = scenario.cluster_from(past.cluster)
    periods = _periods(past, scenario)
    scheduler = _scheduler(cluster, periods[0])
    timeline = Timeline()
    world = PastWorld(past, scenario, scheduler, Ledger(cluster.device_count, timeline))
    fairness, wake_at = _LowestFairness(past.since, past.until), math.inf
    for rules, following in zip(periods, [*periods[1:], None], strict=True):
        if rules is not periods[0]:
            _reconfigure(scheduler, rules)
            wake_at = rules.at
        world.rules_at = math.nextafter(following.at, -math.inf) if following else math.inf
        for step in play_forward(scheduler, world, ends=world.truth, wake_at=wake_at, until=world.rules_at):
            world.follow(step.at, step.instructions)
            fairness.look(scheduler, step.at)
            if validate:
                scheduler.validate()
    outcomes = {outcome.id: outcome for outcome in world.ledger.close(scheduler.now)}
    held = sum(bar.device_seconds for each in timeline.bars if (bar := each.clipped(past.since, past.until)))
    figures = figures_of(past, outcomes, device_seconds=held, cluster=cluster, fairness=fairness.mean)
    return ReplayedPast(label=scenario.label, figures=figures, outcomes=outcomes)


def figures_of(
    past: Past,
    outcomes: dict[str, JobOutcome],
    *,
    device_seconds: float,
    cluster: Cluster,
    fairness: float = math.nan,
) -> Figures:
    """The figures of outcomes, whoever lived through them."""
    told = [outcomes[job.id] for job in past.jobs if job.id in outcomes]
    done = [outcomes[job.id] for job in past.finished if job.id in outcomes and _is_done(outcomes[job.id])]
    promised = [outcome for outcome in told if outcome.promised]
    late = [outcome for outcome in promised if outcome.finished_at > outcome.deadline + LATE_TOLERANCE_S]
    kept = [outcome for outcome in promised if outcome.finished_at <= outcome.deadline + LATE_TOLERANCE_S]
    there = sum(node.device_count for _, node in cluster.present()) * (past.until - past.since)
    return Figures(
        finished=sum(_is_done(outcome) for outcome in told),
        refused=sum(outcome.fate is Fate.DECLINED for outcome in told),
        promised=len(promised), kept=len(kept), broken=len(late),
        completion_mean_s=_mean([outcome.completion_s for outcome in done]),
        completion_p90_s=_quantile([outcome.completion_s for outcome in done], 90),
        waiting_mean_s=_mean([outcome.queueing_s for outcome in done]),
        device_seconds=device_seconds, use=device_seconds / there if there else math.nan,
        resizes=sum(outcome.rescales for outcome in told), suspensions=sum(outcome.suspensions for outcome in told),
        fairness=fairness,
    )  # fmt: skip


class _LowestFairness:
    """Looks now and then how the tenant fares that fares worst."""

    def __init__(self, since: float, until: float) -> None:
        self._every_s = (until - since) / _LOOKS
        self._next_at, self._until = since + self._every_s, until
        self._found: list[float] = []

    def look(self, scheduler: Scheduler, at: float) -> None:
        if self._next_at <= at <= self._until:
            self._next_at = at + self._every_s
            table = scheduler.tenants(at)
            asked = table.deserved_lately > 0
            if asked.any():
                self._found.append(float(table.fairness[asked].min()))

    @property
    def mean(self) -> float:
        return _mean(self._found)


def _is_done(outcome: JobOutcome) -> bool:
    return not math.isnan(outcome.finished_at)


def _periods(past: Past, scenario: Scenario) -> Sequence[PastRules]:
    """The rules of the past; a scenario with a policy has it from the beginning, with the slots and costs of then."""
    if not scenario.policy:
        return past.rules
    return [replace(rules, policy=scenario.policy) for rules in past.rules]


def _scheduler(cluster: Cluster, rules: PastRules) -> Scheduler:
    policy = policy_named(rules.policy)
    return Scheduler(
        cluster, policy, admission=MeasureFirst(policy), slot=rules.slot, costs=ExpectedCosts(rules.overhead),
        stories=False,
    )  # fmt: skip


def _reconfigure(scheduler: Scheduler, rules: PastRules) -> None:
    policy = policy_named(rules.policy)
    costs = ExpectedCosts(rules.overhead)
    at = max(rules.at, scheduler.now)
    scheduler.reconfigure(at, policy, admission=MeasureFirst(policy), slot=rules.slot, costs=costs)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def _quantile(values: Sequence[float], percent: float) -> float:
    return float(np.percentile(values, percent)) if values else math.nan
