"""The public traces as they were published, where they are at hand."""

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.simulate.traces import Profiles, describe, jobs_of, read_trace

Public = Callable[[str], Path]

ELASTICFLOW = {
    "195job": (195, 5490), "cluster01": (1595, 22740), "cluster02": (5778, 123748), "cluster03": (3011, 165443),
    "cluster04": (15802, 705683), "cluster05": (3629, 14303), "cluster06": (2396, 123879), "cluster10": (260, 4023),
    "philly_103959": (876, 42816), "elasticVpollux_e": (195, 9294),
}  # fmt: skip
"""Jobs and requested GPU hours as counted independently."""


@pytest.mark.parametrize("name", ELASTICFLOW)
def test_elasticflow_traces(public: Public, name: str) -> None:
    found = describe(read_trace(public(f"elasticflow/traces/{name}.csv.gz")))
    jobs, device_hours = ELASTICFLOW[name]
    assert (found.format, found.jobs, found.skipped) == ("elasticflow", jobs, {})
    assert found.device_hours == pytest.approx(device_hours, abs=1)
    assert found.slack["p0"] >= 0.45
    assert found.slack["p100"] <= 1.5


@pytest.mark.parametrize(("trace", "tables"), [("cluster02", "A100"), ("elasticVpollux_e", "T4")])
def test_every_elasticflow_job_has_a_curve_that_explains_its_duration(public: Public, trace: str, tables: str) -> None:
    profiles = Profiles.load(public(f"elasticflow/throughputs_{tables}"))
    records = read_trace(public(f"elasticflow/traces/{trace}.csv.gz"))
    for record, job in zip(records, jobs_of(records, profiles), strict=True):
        assert job.seconds_on(job.requested, "gpu") == pytest.approx(record.duration_s, rel=0.01, abs=60)


def test_the_elastic_ceiling_of_cluster02_is_the_published_one(public: Public) -> None:
    profiles = Profiles.load(public("elasticflow/throughputs_A100"))
    jobs = list(jobs_of(read_trace(public("elasticflow/traces/cluster02.csv.gz")), profiles))
    reachable = sum(
        job.work.iterations / max(job.curve.scalings[0][1].rates) <= job.deadline - job.submitted_at for job in jobs
    )
    assert reachable / len(jobs) == pytest.approx(0.967, abs=0.0005)


@pytest.mark.parametrize("share", ["0.1", "0.5", "0.9"])
def test_synthetic_elasticflow_traces_have_best_effort_jobs(public: Public, share: str) -> None:
    found = describe(read_trace(public(f"elasticflow/traces_synthetic/200jobs_900lam_{share}.csv")))
    assert found.best_effort == pytest.approx(float(share), abs=0.05)


def test_philly(public: Public) -> None:
    trace = read_trace(public("traces/philly/philly_every5th.csv.gz"))
    assert len(trace) + sum(count for _, count in trace.skipped) == 16450
    assert trace.jobs[0].submitted_at == 0
    assert len({job.id for job in trace}) == len(trace)
    assert len(list(jobs_of(trace, Profiles.builtin(), deadlines=(0.5, 1.5)))) == len(trace)


def test_alibaba(public: Public) -> None:
    trace = read_trace(public("traces/alibaba-gpu-v2023/openb_pod_list_default.csv.gz"))
    assert dict(trace.skipped) == {"no GPU": 1088, "no start or end": 861}
    assert len(trace) == 8152 - 1088 - 861
    assert describe(trace).sizes == {1: 6129, 2: 15, 4: 15, 8: 44}
