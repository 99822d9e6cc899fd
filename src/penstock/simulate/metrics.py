"""What a run of a policy amounts to in a few numbers."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from penstock.policies import Floats, TenantTable
from penstock.scheduler import UNEXPLAINED_BREACH
from penstock.simulate.outcomes import Fate, JobOutcome
from penstock.simulate.run_fairness import TenantOutcome, least_of

_JOULES_PER_KWH = 3.6e6
FAIR_WITHIN = 1.05
"""What a job held over what it deserved, or the inverse, up to which it counts as fair; Astraea's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The headline of one policy on one trace. Seconds unless said otherwise; NaN where there is nothing to average."""

    policy: str
    jobs: int
    met: int
    """Finished by their deadline."""
    ratio: float
    """``met`` over all jobs with a deadline."""
    value_missed: float
    """1 - value of the finished jobs over the value of all jobs with a deadline, each worth the same in time."""
    declined: int
    late: int
    promises: int
    """Jobs whose deadline was promised."""
    broken: int
    """Promised, and late all the same."""
    broken_worst_s: float
    broken_causes: Mapping[str, int]
    """Why promises were broken, with how many."""
    """How late the latest of those was; zero if there is none."""
    broken_without_cause: int = 0
    """Of those, the ones whose promise nothing outside the policy had endangered."""
    best_effort: int
    best_effort_jct_s: float
    """Mean completion time of the jobs without a deadline."""
    unfinished: int
    cancelled: int = 0
    """Given up by their users. They count in ``jobs`` and in none of the other figures about deadlines."""
    jct_mean_s: float
    jct_p50_s: float
    jct_p95_s: float
    jct_p99_s: float
    queueing_mean_s: float
    makespan_s: float
    utilisation: float
    """Device-seconds held over device-seconds there were, from first submission to last end."""
    fragmentation: float
    """Mean share of free devices stranded in partly used nodes."""
    rescales: int
    """Changes of the devices of running jobs."""
    migrations: int = 0
    """Of those, the ones to as many other devices."""
    suspensions: int
    """How often jobs lost all their devices, whatever the cause."""
    preemptions: int = 0
    """Of those, the ones that the policy decided."""
    preemptions_worst: int = 0
    """Those of the job that was preempted most often."""
    overhead_share: float
    """Share of the held device-seconds in which a job stood still for rescheduling."""
    lost_share: float = math.nan
    """Share of the held device-seconds whose work was lost and had to be done again."""
    energy_kwh: float = math.nan
    """What held devices drew; NaN unless it is known for every job that ran."""
    fairness_mean: float
    fairness_worst: float
    tenant_fairness_least: float
    """Device-seconds over what its share came to, of the tenant that got least of it in the last day."""
    tenant_fairness_most: float
    run_fairness_least: float = math.nan
    """The same over the whole run; NaN where there is only one tenant."""
    run_fairness_most: float = math.nan
    day_fairness_least: float = math.nan
    """The least of any tenant over any 24 hours of the run."""
    losses: int
    """Jobs that held less than they deserved, by more than a twentieth."""
    benefits: int
    """Jobs that held more."""
    rounds: int
    decision_mean_ms: float
    decision_p99_ms: float
    cpu_s: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON: NaN becomes null."""
        return {name: _plain(value) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """What the run itself did and cost."""

    device_count: int
    device_seconds: float
    paused_device_seconds: float = 0.0
    fragmentation: float = math.nan
    decision_s: Sequence[float] = ()
    cpu_s: float = 0.0
    tenants: TenantTable | None = None
    """As they stood in the end."""
    ended_at: float = -math.inf
    """When the last job left, or the simulation ended with jobs still there."""
    available_s: float = math.nan
    """Device-seconds there were, where nodes came and went."""
    run_tenants: Sequence[TenantOutcome] = ()


def summarise(policy: str, outcomes: Sequence[JobOutcome], effort: Effort) -> Summary:
    """Reduce the outcomes of one run."""
    fates = [outcome.fate for outcome in outcomes]
    broken = [outcome for outcome in outcomes if outcome.promised and outcome.fate is Fate.LATE]
    met, late, declined = (fates.count(fate) for fate in (Fate.MET, Fate.LATE, Fate.DECLINED))
    cancelled = fates.count(Fate.CANCELLED)
    best_effort = sum(math.isinf(o.deadline) and o.fate is not Fate.CANCELLED for o in outcomes)
    with_deadline = len(outcomes) - cancelled - best_effort
    finished = [outcome for outcome in outcomes if not math.isnan(outcome.finished_at)]
    completion = np.array([outcome.completion_s for outcome in finished])
    queueing = np.array([o.queueing_s for o in outcomes if not math.isnan(o.started_at)])
    fairness = np.array([o.fairness for o in finished if not math.isnan(o.fairness)])
    shared = np.array([o.long_term_fairness for o in finished if not math.isnan(o.long_term_fairness)])
    tenants = effort.tenants.fairness if effort.tenants is not None else np.empty(0)
    first = min((outcome.submitted_at for outcome in outcomes), default=0.0)
    last = max((outcome.finished_at for outcome in finished), default=first)
    everybody_done = len(finished) + declined == len(outcomes)
    makespan = (last if everybody_done else max(last, effort.ended_at)) - first
    decisions = np.asarray(effort.decision_s) * 1e3
    return Summary(
        policy=policy, jobs=len(outcomes), met=met, ratio=met / with_deadline if with_deadline else math.nan,
        value_missed=1.0 - _mean(np.array([o.value for o in outcomes if _is_dated(o)])),
        declined=declined, late=late, promises=sum(o.promised for o in outcomes),
        broken=len(broken), broken_worst_s=max((o.finished_at - o.deadline for o in broken), default=0.0),
        broken_without_cause=sum(o.breach == UNEXPLAINED_BREACH for o in broken),
        broken_causes=dict(Counter(outcome.breach for outcome in broken).most_common()), best_effort=best_effort,
        best_effort_jct_s=_mean(np.array([o.completion_s for o in finished if math.isinf(o.deadline)])),
        unfinished=fates.count(Fate.UNFINISHED), cancelled=cancelled,
        jct_mean_s=_mean(completion), jct_p50_s=_quantile(completion, 50), jct_p95_s=_quantile(completion, 95),
        jct_p99_s=_quantile(completion, 99), queueing_mean_s=_mean(queueing), makespan_s=makespan,
        utilisation=_utilisation(effort, makespan),
        fragmentation=effort.fragmentation, rescales=sum(o.rescales for o in outcomes),
        migrations=sum(o.migrations for o in outcomes), suspensions=sum(o.suspensions for o in outcomes),
        preemptions=sum(o.preemptions for o in outcomes),
        preemptions_worst=max((o.preemptions for o in outcomes), default=0),
        overhead_share=effort.paused_device_seconds / effort.device_seconds if effort.device_seconds else 0.0,
        lost_share=sum(o.lost_device_s for o in outcomes) / effort.device_seconds if effort.device_seconds else 0.0,
        energy_kwh=sum(o.energy_j for o in outcomes if o.device_seconds) / _JOULES_PER_KWH,
        run_fairness_least=least_of([each.fairness for each in effort.run_tenants]),
        run_fairness_most=-least_of([-each.fairness for each in effort.run_tenants]),
        day_fairness_least=least_of([each.worst_day for each in effort.run_tenants]),
        fairness_mean=_mean(fairness), fairness_worst=_quantile(fairness, 100),
        tenant_fairness_least=_quantile(tenants, 0), tenant_fairness_most=_quantile(tenants, 100),
        losses=int(np.count_nonzero(shared < 1 / FAIR_WITHIN)), benefits=int(np.count_nonzero(shared > FAIR_WITHIN)),
        rounds=len(effort.decision_s),
        decision_mean_ms=_mean(decisions), decision_p99_ms=_quantile(decisions, 99), cpu_s=effort.cpu_s,
    )  # fmt: skip


def _is_dated(outcome: JobOutcome) -> bool:
    return math.isfinite(outcome.deadline) and outcome.fate is not Fate.CANCELLED


def _utilisation(effort: Effort, makespan: float) -> float:
    there = effort.device_count * makespan if math.isnan(effort.available_s) else effort.available_s
    return effort.device_seconds / there if there else 0.0


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else math.nan


def _quantile(values: Floats, percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else math.nan


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
