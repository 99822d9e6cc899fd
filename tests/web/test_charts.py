"""What is drawn, as data: the right bars in the right places, and nothing that could run as a script."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from penstock.learn import Point
from penstock.simulate import Bar
from penstock.web import charts, cluster_svg
from penstock.web.pages.joblog import marked
from penstock.web.pages.submit import quote_html, short
from penstock.web.progress_history import Sample
from penstock.web.view_models import ClusterTimeline, DeviceSpan, TenantUse, TimelineMark, forecast_band
from penstock.wire import CalibrationView, FiguresView, MetricView, QuoteView, ReplayView, WhatIfReport

EVIL = "<img src=x onerror=alert(1)>"


def picture(**changes: Any) -> ClusterTimeline:
    spans = (
        DeviceSpan(bar=Bar("j-1", 0, 4, 10.0, 50.0), width=4, name=EVIL, number=1),
        DeviceSpan(bar=Bar("j-1", 0, 2, 50.0, 100.0), width=2, name=EVIL, number=1),
        DeviceSpan(bar=Bar("", 2, 2, 100.0, 130.0), width=2, planned=True),
    )
    base: dict[str, Any] = {
        "now": 100.0, "since": 0.0, "until": 150.0, "devices": 4, "down": 0, "nodes": ((0, "node-0"),), "left_out": 0,
        "spans": spans, "marks": (TimelineMark(at=60.0, text=EVIL, bad=True, row=1),),
        "busy": ((0.0, 0.0), (10.0, 4.0)),
        "waiting": ((0.0, 1.0),), "counts": {"running": 1}, "power": None,
    }  # fmt: skip
    return ClusterTimeline(**(base | changes))


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


def shapes(drawn: str, look: str) -> list[str]:
    return re.findall(rf'<path class="{look}" d="([^"]+)"', drawn)


def test_a_resize_is_two_bars_of_one_colour_and_the_plan_is_marked_as_such() -> None:
    drawn = cluster_svg.gantt(picture(), 104)
    assert shapes(drawn, "ps-j1") == ["M66.7 0h266.7v4h-266.7zM333.3 0h333.3v2h-333.3z"]
    assert shapes(drawn, "ps-jother ps-planned") == ["M666.7 2h200.0v2h-200.0z"]
    assert drawn.count('data-goes="/ui/jobs/j-1"') == drawn.count("data-goes") == 1, "a stranger's bar leads nowhere"


def test_bars_that_are_high_enough_have_names() -> None:
    assert cluster_svg.gantt(picture(), 104).count("<text") == 3
    assert "<text" not in cluster_svg.gantt(picture(), 10)


def test_failures_are_marks_at_their_time_and_device() -> None:
    drawn = cluster_svg.gantt(picture(), 104)
    assert re.search(r'<svg x="40.00%" y="39.0" overflow="visible"><path class="ps-bad"', drawn)


def test_an_amount_is_drawn_as_steps_and_can_be_read_with_the_pointer() -> None:
    drawn = cluster_svg.levels(picture(), ((0.0, 0.0), (10.0, 4.0)), "devices", 4, 0, 100)
    assert shapes(drawn, "ps-step") == ["M0.0 4H66.7 L66.7 0H666.7"]
    read = re.findall(r'data-tip="[^"]+: (\d+) devices"', drawn)
    assert (len(read), read[5], read[6], read[-1]) == (60, "0", "4", "4")


def test_an_amount_without_a_bound_has_a_round_scale() -> None:
    for most, top in ((0.0, 2), (3.0, 4), (7.0, 10), (41.0, 100)):
        assert f'viewBox="0 0 1000 {top}"' in cluster_svg.levels(picture(), ((0.0, most),), "jobs", None, 1, 100)


def test_what_people_wrote_is_escaped_wherever_html_is_drawn() -> None:
    drawn = cluster_svg.gantt(picture(), 104)
    assert "<img" not in drawn
    assert drawn.count("&lt;img") == 4, "one tip, two names on bars, one mark"
    quote = QuoteView(verdict="refused", reason=EVIL)
    assert "<img" not in quote_html(quote, None)
    assert marked(f"a {EVIL}", "img") == "a &lt;<mark>img</mark> src=x onerror=alert(1)&gt;"


def test_every_chart_is_plain_json() -> None:
    samples = [Sample(1.0, 10, 100, 0.5), Sample(2.0, 20, 100, None), Sample(3.0, 30, 100, 0.25)]
    point = Point(count=1, rate=10.0, spread=0.1, seconds=60.0, updated_at=0.0)
    line = TenantUse(tenant="blue", devices=1, running=1, waiting=0, device_seconds=1.0, share=1.0, buckets=(1.0, 0.0))
    figures = FiguresView(
        finished=1, refused=0, promised=1, kept=1, broken=0, completion_mean_s=1.0, completion_p90_s=1.0,
        waiting_mean_s=None, device_seconds=1.0, use=0.5, resizes=0, suspensions=0,
    )  # fmt: skip
    replayed = ReplayView(label="fifo", figures=figures)
    study = WhatIfReport(
        since=datetime.fromtimestamp(0, UTC), until=datetime.fromtimestamp(1, UTC), jobs=1, devices=1, policy="fifo",
        conclusive=True, doubts=[], notes=[], real=figures, baseline=replayed, replays=[replayed],
        calibration=CalibrationView(errors={}, typical=None, deviations=[]),
    )  # fmt: skip
    used = MetricView(
        name="cpu_percent", count=2, last=90.0, low=80.0, high=90.0, steps=[1, 6], times=[1.0, 6.0],
        values=[80.0, 90.0], lows=[80.0, 90.0], highs=[80.0, 90.0],
    )  # fmt: skip
    drawn = [
        charts.usage([line], 0.0, 10.0), charts.usage([], 0.0, 10.0), charts.used([("CPU", used)], percent=True),
        charts.used([("CPU", used), ("GPU", used)], percent=False), charts.speed(samples),
        charts.scaling([(1, 10.0), (2, 18.0)], [point]), charts.widths(((0.0, 2.0),), 0.0, 1.0),
        charts.forecast(0.0, forecast_band(0.0, 10.0, 0.2), 9.0, 20.0), charts.forecast(0.0, None, None, None),
        charts.trade_off([60.0], [QuoteView(verdict="promised", reason="", devices=2, device_seconds=90.0)], 60.0),
        charts.comparison(study),
    ]  # fmt: skip
    for options in drawn:
        json.dumps(options, allow_nan=False)
        assert not [text for text in texts(options) if "http" in text], "nothing is fetched from elsewhere"


def test_the_promise_line_and_the_band_are_where_they_belong() -> None:
    series = charts.forecast(0.0, forecast_band(0.0, 100.0, 0.25), 110.0, 200.0)["series"][0]
    assert [mark["xAxis"] for mark in series["markLine"]["data"]] == [0.0, 200e3, 110e3]
    assert [edge["xAxis"] for edge in series["markArea"]["data"][0]] == [80e3, 125e3]


def test_speed_is_measured_between_samples_and_not_across_a_restart() -> None:
    samples = [Sample(0.0, 0), Sample(2.0, 10), Sample(3.0, 2), Sample(5.0, 12)]
    data = charts.speed(samples)["series"][0]["data"]
    assert data == [[2e3, 5.0], [5e3, 5.0]]


def test_a_refused_deadline_takes_nothing_and_says_so() -> None:
    quotes = [
        QuoteView(verdict="refused", reason="", counter_offer=datetime.now(UTC)),
        QuoteView(verdict="promised", reason="", devices=4, device_seconds=120.0),
    ]
    options = charts.trade_off([60.0, 600.0], quotes, 600.0)
    assert options["xAxis"]["data"] == ["1m\nrefused", "10m"]
    assert options["series"][0]["data"] == [0, 4]
    assert options["series"][1]["data"] == [None, 2.0]


def test_the_words_for_a_picture_count_what_is_in_it() -> None:
    words = cluster_svg.in_words(picture())
    assert "4 of 4 devices are held now (100 %)" in words
    assert "1 failures" in words


def test_durations_on_the_slider_can_be_read_back() -> None:
    from penstock.core import parse_duration

    for seconds in (10.0, 90.0, 3600.0, 5400.0, 86400.0, 14 * 86400.0):
        assert parse_duration(short(seconds)) == seconds
