"""From outcomes to the headline: every number by hand."""

import json
import math
from typing import Any

import pytest

from penstock.core import Curve, Deadline, JobCancelled, Scaling, Strictness, ValueStep
from penstock.simulate import Effort, Fate, JobOutcome, summarise
from tests.simulate.build import by_name, job, run


def outcome(name: str, fate: Fate, **changes: Any) -> JobOutcome:
    usual = {
        "id": name,
        "fate": fate,
        "model": "",
        "tenant": "",
        "submitted_at": 0.0,
        "deadline": 50.0,
        "promised": False,
    }
    return JobOutcome(**(usual | changes))


MIXED = [
    outcome(
        "met",
        Fate.MET,
        submitted_at=10.0,
        started_at=15.0,
        finished_at=40.0,
        promised=True,
        rescales=2,
        fairness=0.5,
        value=1.0,
    ),
    outcome(
        "late", Fate.LATE, submitted_at=20.0, started_at=35.0, finished_at=90.0, promised=True, fairness=2.5, value=0.5
    ),
    outcome("done", Fate.DONE, submitted_at=20.0, started_at=20.0, finished_at=50.0, deadline=math.inf, suspensions=3),
    outcome("declined", Fate.DECLINED, submitted_at=30.0, value=0.0),
    outcome("open", Fate.UNFINISHED, submitted_at=40.0, started_at=60.0, deadline=math.inf),
]


def test_fates_are_counted() -> None:
    summary = summarise("p", MIXED, Effort(device_count=4, device_seconds=0.0))
    assert (summary.policy, summary.jobs) == ("p", 5)
    assert (summary.met, summary.late, summary.declined, summary.unfinished, summary.best_effort) == (1, 1, 1, 1, 2)
    assert (summary.promises, summary.broken, summary.broken_worst_s) == (2, 1, 40.0)
    assert (summary.rescales, summary.suspensions) == (2, 3)


def test_the_ratio_is_over_jobs_with_a_deadline() -> None:
    summary = summarise("p", MIXED, Effort(device_count=4, device_seconds=0.0))
    assert (summary.ratio, summary.value_missed) == (1 / 3, pytest.approx(1 - 1.5 / 3))
    assert summary.best_effort_jct_s == 30.0, "of those that are done"


def test_what_a_late_result_is_worth_is_counted() -> None:
    steps = (ValueStep(30.0, 0.5), ValueStep(40.0, 0.25))
    jobs = [
        job("half", 25.0, curve=Curve.from_table({1: 1.0}), goal=Deadline(20.0, Strictness.SOFT, steps)),
        job("nothing", 50.0, curve=Curve.from_table({1: 1.0}), goal=Deadline(20.0, Strictness.SOFT, steps)),
        job("free", 5.0, curve=Curve.from_table({1: 1.0})),
    ]
    result = run(jobs)
    found = by_name(result)
    assert [found[name].value for name in ("half", "nothing")] == [0.5, 0.0]
    assert math.isnan(found["free"].value)
    assert (result.summary.value_missed, result.summary.best_effort_jct_s) == (0.75, 5.0)


def test_times_are_averaged_over_those_that_have_them() -> None:
    summary = summarise("p", MIXED, Effort(device_count=4, device_seconds=0.0))
    assert summary.jct_mean_s == pytest.approx((30 + 70 + 30) / 3)
    assert (summary.jct_p50_s, summary.jct_p95_s, summary.jct_p99_s) == (30.0, pytest.approx(66.0), pytest.approx(69.2))
    assert summary.queueing_mean_s == (5 + 15 + 0 + 20) / 4
    assert summary.makespan_s == 90 - 10
    assert (summary.fairness_mean, summary.fairness_worst) == (1.5, 2.5)


def test_effort_becomes_shares() -> None:
    effort = Effort(
        device_count=4, device_seconds=160.0, paused_device_seconds=40.0, fragmentation=0.25,
        decision_s=[0.001, 0.003], cpu_s=2.0,
    )  # fmt: skip
    summary = summarise("p", MIXED, effort)
    assert summary.utilisation == 160 / (4 * 80)
    assert (summary.overhead_share, summary.fragmentation, summary.cpu_s) == (0.25, 0.25, 2.0)
    assert (summary.rounds, summary.decision_mean_ms) == (2, pytest.approx(2.0))
    assert summary.decision_p99_ms == pytest.approx(2.98)


def test_nothing_to_average_is_nan_and_null_in_json() -> None:
    summary = summarise("p", [], Effort(device_count=4, device_seconds=0.0))
    assert math.isnan(summary.ratio)
    assert math.isnan(summary.jct_mean_s)
    assert (summary.utilisation, summary.overhead_share, summary.makespan_s) == (0.0, 0.0, 0.0)
    plain = json.loads(json.dumps(summary.as_dict(), allow_nan=False))
    assert (plain["ratio"], plain["jct_p99_s"], plain["fragmentation"], plain["jobs"]) == (None, None, None, 0)


def test_a_run_is_summed_up_by_hand() -> None:
    jobs = [job("a", requested=2, goal=Deadline(49.0)), job("b", at=10.0, requested=4)]
    result = run(jobs)
    a, b = by_name(result)["a"], by_name(result)["b"]
    assert (a.completion_s, a.queueing_s, a.device_seconds, a.fate) == (50.0, 0.0, 100.0, Fate.LATE)
    assert (b.completion_s, b.queueing_s, b.device_seconds, b.fate) == (65.0, 40.0, 100.0, Fate.DONE)
    summary = result.summary
    assert (summary.jct_mean_s, summary.queueing_mean_s, summary.makespan_s) == (57.5, 20.0, 75.0)
    assert summary.utilisation == pytest.approx(200 / (4 * 75))
    assert (summary.ratio, summary.best_effort, summary.promises) == (0.0, 1, 0)
    assert summary.fragmentation == pytest.approx(50 / 75), "two free devices beside a, none beside b"


def test_fairness_compares_with_a_private_share() -> None:
    jobs = [job("a", requested=2), job("b", at=10.0, requested=4)]
    outcomes = by_name(run(jobs))
    assert outcomes["a"].fairness == 50 / 50, "1.8 jobs on average: its two devices are less than its share of 4/1.8"
    company = (40 * 2 + 25 * 1) / 65
    assert outcomes["b"].fairness == pytest.approx(65 / (25 * company))


@pytest.mark.parametrize(
    ("shape", "changes"),
    [
        ("1x4", {}),
        ("1x4", {"requested": 1, "curve": Curve.from_table({2: 2.0})}),
        ("1x4", {"requested": 16}),
        ("1x4xA+1x4xB", {"curve": Curve((("B", Scaling(counts=(1,), rates=(1.0,))),))}),
        ("1x4xA+1x4xB", {"kinds": ("B",)}),
    ],
    ids=["plain", "asks for less than it needs", "asks for more than there is", "curve of another kind", "other kind"],
)
def test_a_job_alone_on_the_cluster_is_treated_fairly(shape: str, changes: dict[str, Any]) -> None:
    assert by_name(run([job("a", **changes)], shape))["a"].fairness == pytest.approx(1.0)


def test_a_deadline_met_to_the_second_is_met() -> None:
    jobs = [job("a", goal=Deadline(100.0)), job("b", goal=Deadline(99.9))]
    assert {n: o.fate for n, o in by_name(run(jobs)).items()} == {"a": Fate.MET, "b": Fate.LATE}


def test_utilisation_counts_the_time_until_the_last_job_left() -> None:
    result = run([job("a", 10.0), job("b", 1e6, requested=2)], faults=[JobCancelled(1000.0, "b")])
    assert result.summary.utilisation == pytest.approx((10 + 2000) / (4 * 1000))


def test_promises_are_counted_from_what_was_answered() -> None:
    jobs = [job("sure", goal=Deadline(60.0)), job("refused", goal=Deadline(10.0)), job("free")]
    result = run(jobs, policy="elasticflow")
    assert {n: (o.promised, o.fate) for n, o in by_name(result).items()} == {
        "sure": (True, Fate.MET),
        "refused": (False, Fate.DECLINED),
        "free": (False, Fate.DONE),
    }
    assert (result.summary.promises, result.summary.broken, result.summary.ratio) == (1, 0, 0.5)
