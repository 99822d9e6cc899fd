"""Series of metrics: small, in order, one curve across restarts, and nothing but numbers."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import (
    InputError,
    MetricSeries,
    is_metric_name,
    joined_series,
    metric_name,
    metric_values,
    plain_series,
    read_series,
)
from penstock.core.metric_series import MOST_POINTS


def of(*pairs: tuple[int, float], name: str = "loss") -> MetricSeries:
    series = MetricSeries(name)
    for at, (step, value) in enumerate(pairs):
        series.add(step, float(at), value)
    return series


def curve(series: MetricSeries) -> list[tuple[int, float]]:
    return [(point.step, point.value) for point in series.points]


def test_short_series_keep_every_value() -> None:
    series = of((1, 0.5), (2, 0.4), (10, 0.3))
    assert curve(series) == [(1, 0.5), (2, 0.4), (10, 0.3)]
    assert (series.low, series.high, series.count) == (0.3, 0.5, 3)


def test_a_year_of_steps_costs_kilobytes_and_keeps_its_ends_and_peaks() -> None:
    series, steps = MetricSeries("loss"), 200_000
    for step in range(1, steps + 1):
        series.add(step, 1.8e9 + step, 100.0 if step == 77_777 else 1.0 / step)
    assert len(series.points) <= MOST_POINTS
    assert len(json.dumps(plain_series(series))) < 40_000
    assert (series.last.step, series.last.value) == (steps, 1.0 / steps)
    assert (series.low, series.high, series.count) == (1.0 / steps, 100.0, steps)
    widths = [later.step - earlier.step for earlier, later in zip(series.points[1:], series.points[2:], strict=False)]
    assert max(widths) <= 2 * series.width, "points lie equally dense from the first step to the last"


def test_steps_that_are_made_again_replace_what_came_after_them() -> None:
    series = of((1, 5.0), (2, 4.0), (3, 3.0), (4, 2.0), (3, 3.5))
    assert curve(series) == [(1, 5.0), (2, 4.0), (3, 3.5)]
    series.add(3, 9.0, 3.25)
    assert curve(series) == [(1, 5.0), (2, 4.0), (3, 3.25)]


def test_runs_of_one_training_are_one_curve() -> None:
    first = [of((1, 5.0), (2, 4.0), (3, 3.0), (4, 2.9)), of((4, 0.5), name="acc")]
    second = [of((3, 3.1), (4, 2.1), (5, 1.0)), of((9, 7.0), name="lr")]
    loss, *others = sorted(joined_series([first, second]), key=lambda series: series.name != "loss")
    assert curve(loss) == [(1, 5.0), (2, 4.0), (3, 3.1), (4, 2.1), (5, 1.0)]
    assert [(series.name, curve(series)) for series in others] == [("acc", [(4, 0.5)]), ("lr", [(9, 7.0)])]


def test_values_that_are_no_numbers_are_named_and_bound_nothing() -> None:
    series = of((1, 1.0), (2, math.nan), (3, math.inf), (4, 0.5))
    assert (series.low, series.high) == (0.5, 1.0)
    written = json.dumps(plain_series(series), allow_nan=False)
    assert '"nan"' in written
    assert '"inf"' in written
    again = read_series(json.loads(written))
    assert [str(point.value) for point in again.points] == ["1.0", "nan", "inf", "0.5"]


steps = st.integers(0, 10**15) | st.integers(0, 2000)
values = st.floats(allow_nan=True)


@given(st.lists(st.tuples(steps, values), max_size=1500))
def test_whatever_is_told_the_series_is_bounded_orderly_and_read_back(told: list[tuple[int, float]]) -> None:
    series = of(*told)
    found = [point.step for point in series.points]
    assert found == sorted(set(found))
    assert len(found) <= MOST_POINTS
    assert series.count == len(told)
    if told:
        assert found[-1] == told[-1][0]
        assert series.points[-1].value == told[-1][1] or math.isnan(told[-1][1])
    written = json.dumps(plain_series(series), allow_nan=False)
    assert json.dumps(plain_series(read_series(json.loads(written)))) == written


@pytest.mark.parametrize("text", ["loss", "val_acc", "eval/loss", "train/top-1.acc", "recall@10", "_x", "a" * 128])
def test_names_of_metrics(text: str) -> None:
    assert is_metric_name(text)


@pytest.mark.parametrize("text", ["", "1st", "a b", "a=b", "a" * 129, "step", "total", "ü", "a\n", "/x", "<script>"])
def test_what_is_no_name_of_a_metric(text: str) -> None:
    assert not is_metric_name(text)


def test_what_somebody_logs_is_checked_at_once() -> None:
    assert [(one.name, one.value, one.step) for one in metric_values({"a": 1, "b": True}, 3)] == [
        ("a", 1.0, 3),
        ("b", 1.0, 3),
    ]
    with pytest.raises(InputError, match="called 'my metric'"):
        metric_values({"my metric": 1.0})
    with pytest.raises(InputError, match="loss is a list"):
        metric_values({"loss": [1.0]})
    with pytest.raises(InputError, match="step=-1"):
        metric_values({"loss": 1.0}, -1)


@pytest.mark.parametrize(
    "broken",
    [
        {}, {"name": "loss"}, {"name": "a b", "count": 1, "width": 1, "first": 1, "points": [[1, 1.0, 1.0]]},
        {"name": "a", "count": 1, "width": 0, "first": 1, "points": [[1, 1.0, 1.0]]},
        {"name": "a", "count": 1, "width": 1, "first": 1, "points": [[2, 1.0, 1.0], [1, 1.0, 1.0]]},
        {"name": "a", "count": 1, "width": 1, "first": 1, "points": [[1, 1.0]]},
        {"name": "a", "count": 1, "width": 1, "first": 1, "points": [[-1, 1.0, 1.0]]},
        {"name": "a", "count": 1, "width": 1, "first": 1, "points": [[1, "nan", 1.0]]},
        {"name": "a", "count": "inf", "width": 1, "first": 1, "points": []},
        {"name": "a", "count": 1, "width": 1, "first": 1, "points": [[step, 1.0, 1.0] for step in range(9999)]},
    ],
)  # fmt: skip
def test_what_is_no_series_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_series(broken)


def test_names_of_other_tools_become_names_of_metrics() -> None:
    assert metric_name("Loss/train") == "Loss/train"
    assert metric_name("top 5 (%)") == "top_5____"
    for tag in ("", "1st", "ü", "/x", "a" * 500, "\0"):
        assert is_metric_name(metric_name(tag)), tag
