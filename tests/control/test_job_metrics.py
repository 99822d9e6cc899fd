"""Metrics of a job over the API: one curve across its runs, and only for those who may look at the job."""

import math
from collections.abc import Iterator

import pytest

from penstock.core import MetricSeries
from penstock.wire import MissingError
from tests.control.build import Platform
from tests.control.serving import Served, serving


@pytest.fixture
def served(world: Platform) -> Iterator[Served]:
    with serving(world) as running:
        yield running


def series(name: str, *pairs: tuple[int, float]) -> MetricSeries:
    made = MetricSeries(name)
    for step, value in pairs:
        made.add(step, 1e9 + step, value)
    return made


def test_a_job_has_one_curve_for_each_metric_across_its_runs(served: Served) -> None:
    with served.client() as admin, served.client("eve") as eve:
        job_id = admin.submit({"name": "night", "work": 100, "within": 500}).job.id
        assert admin.metrics(job_id).metrics == []
        served.world.passes(3)
        admin.pause(job_id)
        served.world.passes(3)
        admin.resume(job_id)
        served.world.passes(3)
        runs = sorted(run for run in served.world.backend.all_runs if run.startswith(job_id))
        assert len(runs) == 2
        told = served.world.backend.metric_series
        told[runs[0]] = [series("loss", (1, 3.0), (2, 2.0), (3, math.nan))]
        told[runs[1]] = [series("loss", (3, 1.0), (4, 0.5)), series("acc", (4, math.inf))]
        found = admin.metrics(job_id)
        assert (found.job_id, found.name) == (job_id, "night")
        assert [metric.name for metric in found.metrics] == ["acc", "loss"]
        assert (found["loss"].steps, found["loss"].values) == ([1, 2, 3, 4], [3.0, 2.0, 1.0, 0.5])
        assert (found["loss"].last, found["loss"].low, found["loss"].high) == (0.5, 0.5, 3.0)
        assert found["acc"].last == math.inf
        assert math.isnan(found["acc"].low)
        assert [metric.name for metric in admin.metrics(job_id, "loss", "none").metrics] == ["loss"]
        with pytest.raises(KeyError):
            found["lr"]
        with pytest.raises(MissingError):
            eve.metrics(job_id)


def test_what_a_job_used_is_one_curve_over_time(served: Served) -> None:
    with served.client() as admin, served.client("eve") as eve:
        job_id = admin.submit({"name": "night", "work": 100, "within": 500}).job.id
        assert admin.usage(job_id).metrics == []
        served.world.passes(3)
        [run] = [run for run in served.world.backend.all_runs if run.startswith(job_id)]
        served.world.backend.usage_series[run] = [series("cpu_percent", (1000, 80.0), (1005, 95.0))]
        found = admin.usage(job_id)["cpu_percent"]
        assert (found.steps, found.values, found.high) == ([1000, 1005], [80.0, 95.0], 95.0)
        with pytest.raises(MissingError):
            eve.usage(job_id)
