"""Simulated jobs that end by their metric: the truth is the same for everybody, only what is known differs."""

import pytest

from penstock.core import Cluster, Curve, Deadline, InputError, Job, Work
from penstock.policies import policy_named
from penstock.simulate import Result, StopKnowledge, StoppingJobs, simulate
from penstock.simulate.learning_curves import _SHAPES, CurveFamily

ONE = Curve.from_table({1: 1.0})


def training(number: int, work: float = 20_000.0, due: float | None = None) -> Job:
    goal = {} if due is None else {"goal": Deadline(due)}
    return Job(id=f"job-{number}", work=Work(work), curve=ONE, **goal)  # type: ignore[arg-type]


def run(knowledge: StopKnowledge, *jobs: Job, policy: str = "srtf", share: float = 1.0, devices: int = 4) -> Result:
    stopping = StoppingJobs(share=share, knowledge=knowledge, seed=3)
    cluster = Cluster.parse(f"1x{devices}")
    return simulate(jobs, cluster, policy_named(policy), stopping=stopping, validate=True)


@pytest.mark.parametrize("knowledge", list(StopKnowledge))
def test_jobs_end_when_their_metric_says_so_whatever_is_known(knowledge: StopKnowledge) -> None:
    jobs = [training(number) for number in range(4)]
    ends = {outcome.id: outcome.finished_at for outcome in run(knowledge, *jobs).outcomes}
    stopping = StoppingJobs(share=1.0, seed=3)
    for job in jobs:
        believed = stopping.believed(job)
        assert believed.work.until is not None
        assert ends[job.id] == pytest.approx(job.work.iterations - stopping.undone(believed), rel=1e-6)
        assert 0.1 * job.work.iterations < ends[job.id] <= job.work.iterations


def test_forecasts_come_between_the_oracle_and_those_who_ignore_metrics() -> None:
    """One device, all jobs as long as each other as far as anybody knows: the order decides."""
    jobs = [training(number) for number in range(6)]
    means = {known: run(known, *jobs, devices=1).summary.jct_mean_s for known in StopKnowledge}
    assert means[StopKnowledge.ORACLE] < means[StopKnowledge.MOST]
    assert means[StopKnowledge.ORACLE] <= means[StopKnowledge.FORECAST]


def test_promises_made_on_the_most_are_kept() -> None:
    jobs = [training(number, due=45_000.0) for number in range(8)]
    summary = run(StopKnowledge.FORECAST, *jobs, policy="deadline").summary
    assert summary.promises >= 4
    assert summary.broken == 0


def test_the_others_are_as_they_were() -> None:
    jobs = [training(0), training(1, work=50.0)]
    plain = {outcome.id: outcome.finished_at for outcome in run(StopKnowledge.FORECAST, *jobs, share=0.0).outcomes}
    assert plain == pytest.approx({"job-0": 20_000.0, "job-1": 50.0})
    assert StoppingJobs(share=1.0).believed(jobs[1]) == jobs[1]
    with pytest.raises(InputError, match="0% to 100%"):
        StoppingJobs(share=1.5)


@pytest.mark.parametrize("family", sorted(set(_SHAPES) - {CurveFamily.STEPPED}))
def test_a_curve_at_half_the_pace_takes_twice_as_long(family: CurveFamily) -> None:
    shape = _SHAPES[family]
    for time in (0.0, 0.3, 1.0, 4.0):
        assert shape(2.0 * time, 2.0, 0.6) == pytest.approx(shape(time, 1.0, 0.6))
    assert shape(0.0, 1.0, 0.6) == pytest.approx(1.0)
    assert shape(0.5, 1.0, 0.6) < 1.0
