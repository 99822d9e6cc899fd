"""Curves of metrics as they are drawn: gaps where there is no number, and jobs side by side."""

import json
import math
from typing import Any

import pytest

from penstock.web.metric_charts import (
    CurveStyle,
    MetricAxis,
    metric_chart,
    metric_names,
    metric_words,
    smoothed,
)
from penstock.web.pages.compare import differences_html, values_html
from penstock.wire import JobDetail, JobMetricsView, MetricBand, MetricView

EVIL = "<img src=x onerror=alert(1)>"


def metric(name: str, values: list[float], since: float = 1e9) -> MetricView:
    steps = list(range(10, 10 * len(values) + 10, 10))
    finite = [value for value in values if math.isfinite(value)] or [math.nan]
    return MetricView(
        name=name, count=len(values), last=values[-1], low=min(finite), high=max(finite), steps=steps,
        times=[since + 60 * position for position in range(len(values))], values=values, lows=values, highs=values,
    )  # fmt: skip


def job(name: str, *metrics: MetricView) -> JobMetricsView:
    return JobMetricsView(job_id=f"j-{name}", name=name, metrics=list(metrics))


def test_one_job_over_steps() -> None:
    chart = metric_chart("loss", [job("a", metric("loss", [3.0, math.nan, 1.0, -1.0]))], CurveStyle())
    (line,) = chart["series"]
    assert line["data"] == [[10, 3.0], [20, None], [30, 1.0], [40, -1.0]]
    assert chart["xAxis"]["name"] == "step"
    json.dumps(chart, allow_nan=False)


def test_a_logarithm_has_no_place_for_what_is_not_positive() -> None:
    chart = metric_chart("loss", [job("a", metric("loss", [3.0, 0.0, -1.0]))], CurveStyle(logarithmic=True))
    assert chart["yAxis"]["type"] == "log"
    assert [value for _, value in chart["series"][0]["data"]] == [3.0, None, None]


def test_the_metric_a_job_trains_until_has_a_target_and_a_future() -> None:
    band = MetricBand(metric="loss", target=0.5, steps=[30, 40], low=[0.4, 0.3], middle=[0.6, 0.5], high=[0.9, 0.8])
    trained = job("a", metric("loss", [2.0, 1.0])).model_copy(update={"band": band})
    chart = metric_chart("loss", [trained], CurveStyle())
    by_name: dict[str, list[Any]] = {}
    for series in chart["series"]:
        by_name.setdefault(series["name"], []).append(series)
    assert by_name["target"][0]["markLine"]["data"] == [{"yAxis": 0.5}]
    low, height, middle = (series["data"] for series in by_name["forecast"])
    assert (low, middle) == ([[30, 0.4], [40, 0.3]], [[30, 0.6], [40, 0.5]])
    assert [value for _, value in height] == pytest.approx([0.5, 0.5])
    over_time = metric_chart("loss", [trained], CurveStyle(axis=MetricAxis.TIME))
    assert "forecast" not in {series["name"] for series in over_time["series"]}
    assert len(metric_chart("other", [trained], CurveStyle())["series"]) == 0


def test_several_jobs_begin_together() -> None:
    jobs = [
        job("a", metric("loss", [3.0, 2.0], 1e9)),
        job("b", metric("lr", [1.0])),
        job("c", metric("loss", [1.0], 2e9)),
    ]
    chart = metric_chart("loss", jobs, CurveStyle(axis=MetricAxis.TIME))
    assert [line["name"] for line in chart["series"]] == ["a", "c"]
    assert [line["data"] for line in chart["series"]] == [[[0.0, 3.0], [1.0, 2.0]], [[0.0, 1.0]]]
    assert "minutes" in chart["xAxis"]["name"]
    alone = metric_chart("loss", jobs[:1], CurveStyle(axis=MetricAxis.TIME))
    assert alone["xAxis"]["type"] == "time"
    assert alone["series"][0]["data"][1][0] == 1e3 * (1e9 + 60)


def test_a_smoothed_curve_is_drawn_over_its_values() -> None:
    values = [4.0, math.nan, 2.0, 2.0]
    raw, smooth = metric_chart("loss", [job("a", metric("loss", values))], CurveStyle(smoothing=0.5))["series"]
    assert [value for _, value in raw["data"]] == [4.0, None, 2.0, 2.0]
    drawn = [value for _, value in smooth["data"]]
    assert drawn[:2] == [4.0, None]
    assert 2.0 < drawn[3] < drawn[2] < 4.0
    assert smoothed([5.0] * 4, 0.9) == pytest.approx([5.0] * 4)


def test_words_and_order() -> None:
    jobs = [job("a", metric("acc", [0.5]), metric("samples_per_s", [9.0]), metric("val_loss", [3.0, math.inf]))]
    assert metric_names(jobs) == ["val_loss", "acc", "samples_per_s"]
    assert metric_words("val_loss", jobs) == "val_loss: inf at step 20, from 3 to 3. 1 point not finite."


def test_tables_of_a_comparison_escape_what_people_wrote() -> None:
    shown = values_html([job(EVIL, metric("loss", [1.0])), job("b", metric("acc", [0.25]))])
    assert EVIL not in shown
    assert "0.25" in shown
    assert "–" in shown


def detail(name: str, **spec: object) -> JobDetail:
    fields = {"id": "j-1", "number": 1, "name": name, "tenant": "t", "state": "running"}
    return JobDetail.model_validate(
        fields | {"submitted_at": "2026-01-01T00:00:00Z", "spec": spec, "workers": [], "history": []}
    )


def test_what_differs_in_job_files() -> None:
    found = differences_html(
        [detail("a", args=["--lr", 1], goal={"x": EVIL}), detail("b", args=["--lr", 2], goal={"x": "y"})]
    )
    assert "--lr 1" in found
    assert "goal.x" in found
    assert EVIL not in found
    assert "Nothing" in differences_html([detail("a", work=1), detail("b", work=1)])
    assert "x…" in differences_html([detail("a", a={"b": "x" * 99}), detail("b", a={"b": "y"})])
