"""The conformance suite of policies: what every policy owes jobs and devices, whatever happens."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.core import FREE, Cluster, Job, JobSubmitted, Overhead, Quote, Verdict
from penstock.policies import Allocation, AnyPolicy, Assignment, Ints, KindPolicy, KindView, Policy, Standing, View
from penstock.scheduler.costs import ExpectedCosts
from penstock.scheduler.records import JobState
from penstock.scheduler.scheduler import Scheduler
from penstock.scheduler.testing.strategies import ScriptEntry, clusters, jobs, scripts
from penstock.scheduler.testing.world import CheckedWorld

SLOTS = st.sampled_from([0.0, 1.0, 60.0])
COSTLY = Overhead(every_round_s=1.0, change_s=3.0, per_doubling_s=2.0, worst_s=11.0)


class PolicyConformance:
    """Inherit, say how your policy is made, and let pytest run it.

    The tests tell when a device is granted twice, a width cannot be used, a job is lost or never ends, a promise is
    broken, or a decision is not a function of the view.
    """

    examples = 40
    """Random worlds per test."""

    def make(self) -> AnyPolicy:
        """A new policy."""
        raise NotImplementedError("say how your policy is made")

    def test_calm_world_ends_with_every_job_settled_and_every_promise_kept(self) -> None:
        def run(data: st.DataObject, cluster: Cluster, slot: float) -> None:
            script, times = data.draw(scripts(misfortunes=False))
            scheduler = Scheduler(cluster, self.make(), slot=slot)
            outcome = _played(scheduler, script, times).outcome
            assert set(outcome) == _submitted(script)
            assert scheduler.active() == []
            for job_id, ended in outcome.items():
                expected = JobState.FINISHED if ended == "finished" else JobState.DECLINED
                assert scheduler.state_of(job_id) == expected

        self._try(run, data=st.data(), cluster=clusters(), slot=SLOTS)

    def test_failures_lose_no_job_and_no_work(self) -> None:
        def run(data: st.DataObject, cluster: Cluster, slot: float, costs: Overhead) -> None:
            script, times = data.draw(scripts(misfortunes=True))
            scheduler = Scheduler(cluster, self.make(), slot=slot, costs=ExpectedCosts(costs))
            world = _played(scheduler, script, times)
            assert set(world.outcome) == _submitted(script)
            assert world.held == {}

        self._try(run, data=st.data(), cluster=clusters(), slot=SLOTS, costs=st.sampled_from([FREE, COSTLY]))

    def test_the_same_view_gives_the_same_decision(self) -> None:
        def run(data: st.DataObject, cluster: Cluster, slot: float) -> None:
            script, times = data.draw(scripts(misfortunes=True))
            _played(Scheduler(cluster, _twice(self.make()), slot=slot), script, times)

        self._try(run, data=st.data(), cluster=clusters(), slot=SLOTS)

    def test_a_lone_job_gets_a_plain_answer_and_runs(self) -> None:
        def run(job: Job) -> None:
            scheduler = Scheduler(Cluster.parse("2x4"), self.make(), slot=0.0)
            scheduler.handle(JobSubmitted(0.0, job))
            quote = scheduler.quote_of("job-0")
            assert quote is not None
            assert quote.reason
            if quote.verdict is not Verdict.REFUSED:
                assert scheduler.devices_of("job-0"), "the cluster is empty, nothing to wait for"

        self._try(run, job=jobs(0, 0.0))

    def test_it_says_what_it_is(self) -> None:
        policy = type(self.make())
        assert policy.name
        assert policy.summary

    def _try(self, run: Callable[..., None], **drawn: st.SearchStrategy[Any]) -> None:
        checks = [HealthCheck.too_slow]
        settings(max_examples=self.examples, deadline=None, suppress_health_check=checks)(given(**drawn)(run))()


def _played(scheduler: Scheduler, script: Sequence[ScriptEntry], times: Sequence[float]) -> CheckedWorld:
    world = CheckedWorld(scheduler)
    world.run(script, times)
    return world


def _submitted(script: Sequence[ScriptEntry]) -> set[str]:
    return {entry.job.id for entry in script if isinstance(entry, JobSubmitted)}


def _twice(policy: AnyPolicy) -> AnyPolicy:
    return _TwiceWide(policy) if isinstance(policy, Policy) else _TwiceByKind(policy)


Answers = Sequence[Quote | None]


def _checked_answers(first: Answers, second: Answers, view: KindView | View, rows: Ints) -> None:
    assert list(first) == list(second), "admission is not a function of the view"
    for row, quote in zip(rows.tolist(), first, strict=True):
        if quote is None:
            assert view.standing[row] == Standing.DEFERRED, "a job that was never answered gets no answer"
            continue
        assert quote.job_id == view.jobs[row].id, "one quote per row, in order"
        assert view.hard[row] or quote.verdict is not Verdict.REFUSED, "a soft deadline was refused"


class _TwiceByKind(KindPolicy):
    """Asks a policy everything twice and insists on the same answer."""

    def __init__(self, policy: KindPolicy) -> None:
        self._policy = policy
        self.name, self.placement = policy.name, policy.placement  # type: ignore[misc]
        self.overhead_proof, self.keeps_promises = policy.overhead_proof, policy.keeps_promises  # type: ignore[misc]

    def admit(self, view: KindView, rows: Ints) -> Answers:
        first, second = self._policy.admit(view, rows), self._policy.admit(view, rows)
        _checked_answers(first, second, view, rows)
        return first

    def allocate(self, view: KindView) -> Allocation:
        first, second = self._policy.allocate(view), self._policy.allocate(view)
        assert np.array_equal(first.widths, second.widths), "allocation is not a function of the view"
        assert first.wake_at == second.wake_at
        return first


class _TwiceWide(Policy):
    """The same for a policy that sees all kinds."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.name, self.placement = policy.name, policy.placement  # type: ignore[misc]
        self.overhead_proof, self.keeps_promises = policy.overhead_proof, policy.keeps_promises  # type: ignore[misc]

    def admit(self, view: View, rows: Ints) -> Answers:
        first, second = self._policy.admit(view, rows), self._policy.admit(view, rows)
        _checked_answers(first, second, view, rows)
        return first

    def allocate(self, view: View) -> Assignment:
        first, second = self._policy.allocate(view), self._policy.allocate(view)
        assert np.array_equal(first.widths, second.widths), "allocation is not a function of the view"
        assert np.array_equal(first.kinds, second.kinds), "allocation is not a function of the view"
        assert first.wake_at == second.wake_at
        return first
