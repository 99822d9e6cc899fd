"""What every policy must do, whatever the cluster, the jobs and the misfortunes.

A new policy that is registered in ``penstock.policies`` is picked up here by itself.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.core import FREE, Cluster, JobSubmitted, Overhead, Verdict
from penstock.policies import POLICIES, Allocation, KindView, policy_named
from penstock.scheduler import ExpectedCosts, JobState, Scheduler
from tests.policies.strategies import clusters, jobs, scripts
from tests.policies.world import World

every_policy = pytest.mark.parametrize("name", sorted(POLICIES))
slots = st.sampled_from([0.0, 1.0, 60.0])
quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
COSTLY = Overhead(every_round_s=1.0, change_s=3.0, per_doubling_s=2.0, worst_s=11.0)


@every_policy
@quick
@given(data=st.data(), cluster=clusters(), slot=slots)
def test_calm_world_ends_with_every_job_settled_and_every_promise_kept(
    name: str, data: st.DataObject, cluster: Cluster, slot: float
) -> None:
    script, times = data.draw(scripts(misfortunes=False))
    scheduler = Scheduler(cluster, policy_named(name), slot=slot)
    world = World(scheduler)
    world.run(script, times)
    submitted = {entry.job.id for entry in script if isinstance(entry, JobSubmitted)}
    assert set(world.outcome) == submitted
    assert scheduler.active() == []
    for job_id, outcome in world.outcome.items():
        assert scheduler.state_of(job_id) == (JobState.FINISHED if outcome == "finished" else JobState.DECLINED)


@every_policy
@quick
@given(data=st.data(), cluster=clusters(), slot=slots, costs=st.sampled_from([FREE, COSTLY]))
def test_failures_lose_no_job_and_no_work(
    name: str, data: st.DataObject, cluster: Cluster, slot: float, costs: Overhead
) -> None:
    script, times = data.draw(scripts(misfortunes=True))
    scheduler = Scheduler(cluster, policy_named(name), slot=slot, costs=ExpectedCosts(costs))
    world = World(scheduler)
    world.run(script, times)
    submitted = {entry.job.id for entry in script if isinstance(entry, JobSubmitted)}
    assert set(world.outcome) == submitted
    assert world.held == {}


class _Twice:
    """Asks a policy everything twice and insists on the same answer."""

    def __init__(self, name: str) -> None:
        self._policy = policy_named(name)
        self.placement = self._policy.placement
        self.overhead_proof = self._policy.overhead_proof

    def admit(self, view: KindView, rows: np.ndarray) -> object:
        first = self._policy.admit(view, rows)
        assert list(first) == list(self._policy.admit(view, rows)), "admission is not a function of the view"
        assert [quote.job_id for quote in first] == [view.jobs[row].id for row in rows], "one quote per row, in order"
        assert all(
            quote.verdict is not Verdict.REFUSED or view.hard[row] for quote, row in zip(first, rows, strict=True)
        )
        return first

    def allocate(self, view: KindView) -> Allocation:
        first, second = self._policy.allocate(view), self._policy.allocate(view)
        assert np.array_equal(first.widths, second.widths), "allocation is not a function of the view"
        assert first.wake_at == second.wake_at
        return first


@every_policy
@quick
@given(data=st.data(), cluster=clusters(), slot=slots)
def test_the_same_view_gives_the_same_decision(name: str, data: st.DataObject, cluster: Cluster, slot: float) -> None:
    script, times = data.draw(scripts(misfortunes=True))
    World(Scheduler(cluster, _Twice(name), slot=slot)).run(script, times)  # type: ignore[arg-type]


@every_policy
@settings(max_examples=20, deadline=None)
@given(job=jobs(0, 0.0))
def test_a_lone_job_gets_a_plain_answer_and_runs(name: str, job: object) -> None:
    cluster = Cluster.parse("2x4")
    scheduler = Scheduler(cluster, policy_named(name), slot=0.0)
    scheduler.handle(JobSubmitted(0.0, job))  # type: ignore[arg-type]
    quote = scheduler.quote_of("job-0")
    assert quote is not None
    assert quote.reason
    if quote.verdict is not Verdict.REFUSED:
        assert scheduler.devices_of("job-0"), "the cluster is empty, nothing to wait for"


def test_every_policy_says_what_it_is() -> None:
    for name, policy in POLICIES.items():
        assert policy.name == name
        assert policy.summary
        assert policy.__doc__
        assert "O(" in policy.__doc__, f"{name}: state the cost of a decision in the docstring"
