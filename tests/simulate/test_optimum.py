"""The bound that no policy can beat, on cases small enough to know the answer."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core import Cluster, Curve, Deadline, InputError, Job, Scaling, Work
from penstock.policies import POLICIES
from penstock.simulate import Setting, TraceRecipe, Uncertainty, Workload, bound_of, run_policy
from penstock.simulate.optimum import MOST_JOBS, optimum
from penstock.simulate.traces import Profiles

pytest.importorskip("scipy")

LINEAR = Curve.from_table({1: 1.0, 2: 2.0, 4: 4.0})


def job(name: str, work: float, until: float, at: float = 0.0, **changes: Any) -> Job:
    fields = {"id": name, "work": Work(work), "curve": LINEAR, "submitted_at": at, "goal": Deadline(until)}
    return Job(**(fields | changes))


def most(*jobs: Job, shape: str = "1x4", **options: Any) -> int:
    found = optimum(jobs, Cluster.parse(shape), **options)
    assert found.is_exact
    return found.met


def test_what_fits_counts_and_what_does_not_does_not() -> None:
    assert most(job("a", 40.0, 10.0)) == 1
    assert most(job("a", 41.0, 10.0)) == 0
    assert most(job("a", 20.0, 10.0), job("b", 20.0, 10.0)) == 2
    assert most(job("a", 20.0, 10.0), job("b", 21.0, 10.0)) == 1


def test_the_future_is_known() -> None:
    """Whoever starts the long job at once misses the two short ones that come later."""
    assert most(job("long", 40.0, 12.0), job("b", 9.0, 9.0, at=5.0), job("c", 7.0, 9.0, at=5.0)) == 2


def test_a_rigid_job_needs_its_width() -> None:
    rigid = {"at_least": 3, "at_most": 3, "requested": 3, "curve": Curve.from_table({3: 1.0})}
    assert most(job("a", 10.0, 10.0, **rigid), job("b", 10.0, 20.0, **rigid), shape="1x4") == 2
    assert most(job("a", 10.0, 10.0, **rigid), job("b", 10.0, 10.0, **rigid), shape="1x4") == 1
    assert most(job("a", 10.0, 10.0, **rigid), shape="1x2") == 0


def test_kinds_are_used_beside_each_other() -> None:
    both = Curve((("fast", Scaling(counts=(1,), rates=(4.0,))), ("slow", Scaling(counts=(1,), rates=(1.0,)))))
    jobs = [job(name, 10.0, 10.0, curve=both) for name in "abcd"]
    assert most(*jobs, shape="1x1xfast") == 4
    assert most(*(job(name, 20.0, 10.0, curve=both) for name in "abcd"), shape="1x1xfast+1x1xslow") == 2
    assert most(*(job(name, 10.0, 10.0, curve=both) for name in "abcdefgh"), shape="1x1xfast+1x1xslow") == 5


def test_best_effort_takes_nothing_and_speed_is_the_true_one() -> None:
    assert most(job("a", 40.0, 10.0), Job(id="b", work=Work(1e9), curve=LINEAR)) == 1
    assert most(job("a", 40.0, 10.0), speed=lambda _: 0.9) == 0
    assert optimum([Job(id="b", work=Work(1e9), curve=LINEAR)], Cluster.parse("1x4")).summary().jobs == 1


def test_a_case_that_is_too_large_is_refused() -> None:
    jobs = [job(f"j{i}", 1.0, 10.0) for i in range(MOST_JOBS + 1)]
    with pytest.raises(InputError, match=f"{MOST_JOBS + 1} jobs with a deadline. Allowed: at most {MOST_JOBS}"):
        optimum(jobs, Cluster.parse("1x4"))


def test_a_search_that_ends_early_still_bounds() -> None:
    workload = small(seed=2, jobs=60, load=3.0)
    hasty = optimum(workload.jobs(), Cluster.parse("1x8"), patience_s=0.05)
    exact = bound_of(workload, Setting(cluster=Cluster.parse("1x8")))
    assert hasty.met >= exact.met


def small(seed: int, jobs: int = 15, load: float = 2.0) -> Workload:
    profiles = Profiles.builtin()
    trace = TraceRecipe(jobs=jobs, best_effort=0.1).trace(load, seed, Cluster.parse("1x8"), profiles)
    return Workload(trace=trace, profiles=profiles, seed=seed)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(sorted(POLICIES)), st.sampled_from([0.0, 0.3]))
def test_no_policy_beats_it(seed: int, policy: str, wrong_by: float) -> None:
    workload, setting = small(seed), Setting(cluster=Cluster.parse("1x8"), wrong_by=wrong_by)
    bound = bound_of(workload, setting)
    assert run_policy(policy, workload, setting).summary.met <= bound.met <= bound.with_deadline
    if wrong_by:
        world = Uncertainty(wrong_by=wrong_by, seed=seed)
        assert bound.met == optimum(workload.jobs(), setting.cluster, speed=world.speed).met


def test_as_a_line_beside_policies() -> None:
    summary = optimum([job("a", 40.0, 10.0), job("b", 41.0, 10.0)], Cluster.parse("1x4")).summary()
    assert (summary.policy, summary.met, summary.ratio, summary.declined) == ("optimum", 1, 0.5, 1)
    assert math.isnan(summary.jct_mean_s)
    assert summary.as_dict()["jct_mean_s"] is None
