"""Worlds that differ from what the scheduler believes: wrong speeds, doubts, reports, failing nodes."""

import itertools
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core import Cluster, InputError, JobCancelled, NodeJoined, NodeLost, UnknownNameError
from penstock.policies import Allocation, KindPolicy, KindView, policy_named
from penstock.simulate import Fate, NodeFailures, Setting, Uncertainty, Workload, costs_named, run_policy, simulate
from penstock.simulate.traces import Profiles, Trace, generate, jobs_of
from tests.simulate.build import by_name, job, run
from tests.tools.examples import examples


class Faster(Uncertainty):
    """Everybody is faster than believed by all that curves may be wrong."""

    def speed(self, job_id: str) -> float:  # noqa: ARG002
        return 1.0 + self.wrong_by


class Slower(Uncertainty):
    """Everybody is slower than believed by all that curves may be wrong."""

    def speed(self, job_id: str) -> float:  # noqa: ARG002
        return 1.0 - self.wrong_by


def slower(share: float, **changes: Any) -> Uncertainty:
    return Slower(wrong_by=share, **changes)


class Watching(KindPolicy):
    """Everybody gets what was asked for; what is believed at every decision is written down."""

    name = "watching"
    summary = "writes down what it sees"

    def __init__(self) -> None:
        self.seen: list[tuple[float, list[float], list[float]]] = []

    def allocate(self, view: KindView) -> Allocation:
        self.seen.append((view.now, view.remaining.tolist(), view.doubts[:, 0].tolist()))
        return Allocation(view.requested.copy())


def test_a_job_ends_when_it_really_does() -> None:
    assert by_name(run([job("a", 100.0)], uncertainty=slower(0.5)))["a"].finished_at == 200.0
    assert by_name(run([job("a", 100.0)], uncertainty=Faster(wrong_by=0.25)))["a"].finished_at == 80.0


def test_reports_bring_what_is_believed_back_to_the_truth() -> None:
    policy = Watching()
    world = slower(0.5, report_every_s=10.0)
    simulate([job("a", 100.0)], Cluster.parse("1x4"), policy, slot=0.0, uncertainty=world)
    believed = {now: remaining[0] for now, remaining, _ in policy.seen}
    assert believed[10.0] == pytest.approx(95.0)
    assert believed[190.0] == pytest.approx(5.0)
    assert len(believed) == 20, "at the start and every ten seconds until 190"


def test_doubts_are_told_to_the_policy_and_change_nothing_else() -> None:
    policy = Watching()
    result = simulate([job("a")], Cluster.parse("1x4"), policy, slot=0.0, uncertainty=Uncertainty(doubts=0.2))
    assert policy.seen[0][2] == [0.2]
    assert by_name(result)["a"].finished_at == 100.0


def test_a_failure_costs_what_was_really_done_since_the_last_checkpoint() -> None:
    jobs = [job("a", 100.0, checkpoint_every_s=10.0)]
    faults = [NodeLost(25.0, "node-0"), NodeJoined(30.0, Cluster.parse("1x4").nodes[0])]
    result = run(jobs, faults=faults, uncertainty=slower(0.5, report_every_s=1000.0))
    assert by_name(result)["a"].finished_at == pytest.approx(30.0 + (100.0 - 20 * 0.5) / 0.5)


def test_a_job_that_is_cancelled_ends_there() -> None:
    result = run([job("a", 1000.0)], faults=[JobCancelled(5.0, "a")], uncertainty=slower(0.1, report_every_s=2.0))
    assert by_name(result)["a"].fate is Fate.CANCELLED


def test_speeds_are_drawn_per_job_within_the_bounds_whatever_the_policy() -> None:
    world = Uncertainty(wrong_by=0.2, seed=3)
    speeds = [world.speed(f"job-{i}") for i in range(2000)]
    assert min(speeds) >= 0.8
    assert max(speeds) <= 1.2
    assert sum(speeds) / len(speeds) == pytest.approx(1.0, abs=0.01)
    assert speeds == [world.speed(f"job-{i}") for i in range(2000)]
    assert speeds != [Uncertainty(wrong_by=0.2, seed=4).speed(f"job-{i}") for i in range(2000)]


@pytest.mark.parametrize(
    "changes", [{"wrong_by": 1.0}, {"wrong_by": -0.1}, {"doubts": math.nan}, {"report_every_s": 0.0}]
)
def test_a_world_that_cannot_be_is_refused(changes: dict[str, float]) -> None:
    with pytest.raises(InputError, match="Allowed"):
        Uncertainty(**changes)


def test_nodes_fail_as_often_as_stated_and_come_back() -> None:
    cluster, failures = Cluster.parse("20x1"), NodeFailures(1000.0, repair_s=10.0)
    events = list(itertools.takewhile(lambda event: event.at < 1e5, failures.events(cluster, seed=1)))
    assert [event.at for event in events] == sorted(event.at for event in events)
    lost = [event for event in events if isinstance(event, NodeLost)]
    assert len(lost) == pytest.approx(20 * 1e5 / 1010, rel=0.1)
    for node in cluster.nodes:
        mine = [event for event in events if node.name in (getattr(event, "node", ""), getattr(event.node, "name", ""))]
        kinds = [type(event) for event in mine]
        assert kinds[:4] == [NodeLost, NodeJoined] * 2
        assert mine[1].at - mine[0].at == pytest.approx(10.0)


def test_failures_are_written_as_they_are_read() -> None:
    assert NodeFailures.parse("mtbf=5d, repair=30m") == NodeFailures(5 * 86400.0, 1800.0)
    assert NodeFailures.parse(str(NodeFailures.parse("mtbf=36h"))) == NodeFailures(36 * 3600.0)
    with pytest.raises(UnknownNameError, match="Did you mean 'mtbf'"):
        NodeFailures.parse("mtfb=5d")
    for text in ("repair=1h", "mtbf", "mtbf=", "mtbf=0s"):
        with pytest.raises(InputError):
            NodeFailures.parse(text)


@pytest.mark.parametrize("policy", ["deadline", "fifo", "tiresias"])
def test_everything_ends_although_nodes_fail_for_ever(policy: str) -> None:
    jobs = [job(f"j{i}", 5000.0, at=50.0 * i, checkpoint_every_s=60.0) for i in range(8)]
    failures = NodeFailures(2000.0, repair_s=500.0).events(Cluster.parse("3x4"), seed=2)
    result = run(jobs, "3x4", policy, slot=60.0, failures=failures)
    assert result.summary.unfinished == 0
    assert sum(outcome.suspensions for outcome in result.outcomes) > 0


def test_a_job_that_nothing_can_run_does_not_keep_the_world_alive() -> None:
    failures = NodeFailures(2000.0, repair_s=500.0).events(Cluster.parse("1x4"), seed=2)
    assert run([job("a")], "1x4", "tests.simulate.test_uncertainty:Idle", failures=failures).summary.unfinished == 1


class Idle(KindPolicy):
    """Gives nobody anything."""

    name = "idle"
    summary = "nobody gets anything"

    def allocate(self, view: KindView) -> Allocation:
        return Allocation(view.requested * 0)


def workload(seed: int = 0, jobs: int = 60, every_s: float = 600.0) -> Workload:
    profiles = Profiles.builtin()
    records = tuple(generate(jobs, seed=seed, profiles=profiles, mean_interval_s=every_s))
    return Workload(trace=Trace(name="made", format="plain", jobs=records), profiles=profiles, seed=seed)


def test_a_setting_without_errors_is_the_exact_world() -> None:
    exact = run_policy("deadline", workload(), Setting(cluster=Cluster.parse("2x8")))
    wrong = run_policy("deadline", workload(), Setting(cluster=Cluster.parse("2x8"), wrong_by=0.2))
    again = run_policy("deadline", workload(), Setting(cluster=Cluster.parse("2x8"), wrong_by=0.2))
    assert Setting(cluster=Cluster.parse("2x8")).is_exact
    assert repr(wrong.outcomes) == repr(again.outcomes) != repr(exact.outcomes)


def test_stated_doubts_save_promises() -> None:
    cluster = Cluster.parse("2x8")
    careless = Setting(cluster=cluster, wrong_by=0.2)
    careful = Setting(cluster=cluster, wrong_by=0.2, doubts=0.2)
    broken = {s.doubts: run_policy("deadline", workload(1, 150, 6000.0), s).summary.broken for s in (careless, careful)}
    assert broken[0.2] < broken[0.0]


def test_a_replica_knows_no_other_world() -> None:
    with pytest.raises(InputError, match="not a replica"):
        run_policy("edf-artifact", workload(), Setting(cluster=Cluster.parse("2x8"), wrong_by=0.1))


@settings(max_examples=examples(8, 20), deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["fifo", "edf", "tiresias", "deadline"]), st.sampled_from([0.0, 0.3]))
def test_true_work_is_done_whatever_happens(seed: int, policy: str, wrong_by: float) -> None:
    """Every job ends, and ran at least as long as its true rate on the widest devices takes."""
    profiles = Profiles.builtin()
    jobs = list(jobs_of(generate(12, seed=seed, profiles=profiles, mean_interval_s=900.0, best_effort=0.5), profiles))
    world = Uncertainty(wrong_by=wrong_by, seed=seed)
    failures = NodeFailures(86400.0).events(Cluster.parse("2x4"), seed)
    result = simulate(
        jobs, Cluster.parse("2x4"), policy_named(policy), slot=60.0,
        uncertainty=world, failures=failures,
    )  # fmt: skip
    for each in jobs:
        outcome = by_name(result)[each.id]
        if outcome.fate is Fate.DECLINED:
            continue
        assert outcome.fate is not Fate.UNFINISHED
        fastest = max(rate for _, rate in each.curve.levels("gpu", at_most=8)) * world.speed(each.id)
        assert outcome.finished_at - outcome.started_at >= each.work.iterations / fastest * (1 - 1e-9)


class Right(Uncertainty):
    """A world that keeps true books although the scheduler is right about everybody."""

    def speed(self, job_id: str) -> float:  # noqa: ARG002
        return 1.0


@settings(max_examples=examples(6, 15), deadline=None)
@given(
    st.integers(0, 10**6), st.sampled_from(["fifo", "srtf", "edf", "deadline"]), st.sampled_from(["none", "measured"])
)
def test_true_books_agree_with_the_scheduler_where_it_is_right(seed: int, policy: str, overhead: str) -> None:
    profiles, cluster = Profiles.builtin(), Cluster.parse("2x4")
    jobs = list(jobs_of(generate(12, seed=seed, profiles=profiles, mean_interval_s=900.0, best_effort=0.3), profiles))

    def ends(uncertainty: Uncertainty | None) -> dict[str, float]:
        result = simulate(
            jobs, cluster, policy_named(policy), slot=60.0, costs=costs_named(overhead, cluster, 60.0),
            failures=NodeFailures(86400.0).events(cluster, seed), uncertainty=uncertainty,
        )  # fmt: skip
        return {outcome.id: outcome.finished_at for outcome in result.outcomes}

    assert ends(Right(wrong_by=0.1)) == pytest.approx(ends(None), abs=1e-3, nan_ok=True)
