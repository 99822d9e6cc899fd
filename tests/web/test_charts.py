"""What is drawn, as data: the right bars in the right places, and nothing that could run as a script."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from penstock.control.views import QuoteView
from penstock.control.whatif import Verdicts
from penstock.estimate import Point
from penstock.web import charts
from penstock.web.pages.joblog import marked
from penstock.web.pages.submit import quote_html, short
from penstock.web.pictures import ClusterPicture, Mark, Stretch, TenantLine, band_of
from penstock.web.trail import Sample

EVIL = "<img src=x onerror=alert(1)>"


def picture(**changes: Any) -> ClusterPicture:
    stretches = (
        Stretch(first=0, count=4, start=10.0, end=50.0, width=4, job_id="j-1", name=EVIL, number=1),
        Stretch(first=0, count=2, start=50.0, end=100.0, width=2, job_id="j-1", name=EVIL, number=1),
        Stretch(first=2, count=2, start=100.0, end=130.0, width=2, planned=True),
    )
    base: dict[str, Any] = {
        "now": 100.0, "since": 0.0, "until": 150.0, "devices": 4, "down": 0, "nodes": (("node-0", 0),), "left_out": 0,
        "stretches": stretches, "marks": (Mark(at=60.0, text=EVIL, bad=True, row=1),),
        "busy": ((0.0, 0.0), (10.0, 4.0)),
        "waiting": ((0.0, 1.0),), "counts": {"running": 1}, "power": None,
    }  # fmt: skip
    return ClusterPicture(**(base | changes))


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


def test_a_resize_is_two_bars_of_one_colour_and_the_plan_is_marked_as_such() -> None:
    held = charts.gantt(picture())["series"][0]["data"]
    assert [(bar[0], bar[1], bar[2], bar[3], bar[4]) for bar in held] == [
        (10e3, 50e3, 0, 4, 0), (50e3, 100e3, 0, 2, 0), (100e3, 130e3, 2, 2, 1),
    ]  # fmt: skip
    assert held[0][6] == held[1][6] == charts.hue(1)
    assert held[2][6] != held[0][6]
    assert held[2][8] == "", "a stranger's bar leads nowhere"


def test_failures_are_marks_at_their_time_and_device() -> None:
    trouble = charts.gantt(picture())["series"][1]
    assert trouble["data"][0][:2] == [60e3, 1.5]


def test_what_people_wrote_is_escaped_wherever_html_is_drawn() -> None:
    options = charts.gantt(picture())
    tips = [bar[7] for bar in options["series"][0]["data"]] + [mark[2] for mark in options["series"][1]["data"]]
    assert not [tip for tip in tips if "<img" in tip]
    assert "&lt;img" in tips[0]
    quote = QuoteView(verdict="refused", reason=EVIL)
    assert "<img" not in quote_html(quote, None)
    assert marked(f"a {EVIL}", "img") == "a &lt;<mark>img</mark> src=x onerror=alert(1)&gt;"


def test_every_chart_is_plain_json() -> None:
    samples = [Sample(1.0, 10, 100, 0.5), Sample(2.0, 20, 100, None), Sample(3.0, 30, 100, 0.25)]
    point = Point(count=1, rate=10.0, spread=0.1, seconds=60.0, updated_at=0.0)
    line = TenantLine(tenant="blue", devices=1, running=1, waiting=0, device_seconds=1.0, share=1.0, buckets=(1.0, 0.0))
    row = Verdicts(
        policy="fifo", jobs=1, with_deadline=1, met=1, late=0, refused=0, completion_s=1.0, waiting_s=0.0, resizes=0,
        utilisation=0.5,
    )  # fmt: skip
    drawn = [
        charts.gantt(picture()), charts.levels(picture(), ((0.0, 1.0),), "jobs", None, "red"),
        charts.usage([line], 0.0, 10.0), charts.usage([], 0.0, 10.0), charts.progress(samples), charts.progress([]),
        charts.speed(samples), charts.scaling([(1, 10.0), (2, 18.0)], [point]), charts.widths(((0.0, 2.0),), 0.0, 1.0),
        charts.forecast(0.0, band_of(0.0, 10.0, 0.2), 9.0, 20.0), charts.forecast(0.0, None, None, None),
        charts.trade_off([60.0], [QuoteView(verdict="promised", reason="", devices=2, device_seconds=90.0)], 60.0),
        charts.comparison([row]),
    ]  # fmt: skip
    for options in drawn:
        json.dumps(options, allow_nan=False)
        assert not [text for text in texts(options) if "http" in text], "nothing is fetched from elsewhere"


def test_the_promise_line_and_the_band_are_where_they_belong() -> None:
    series = charts.forecast(0.0, band_of(0.0, 100.0, 0.25), 110.0, 200.0)["series"][0]
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
    words = charts.in_words(picture())
    assert "4 of 4 devices are held now (100 %)" in words
    assert "1 failures" in words


def test_durations_on_the_slider_can_be_read_back() -> None:
    from penstock.core import parse_duration

    for seconds in (10.0, 90.0, 3600.0, 5400.0, 86400.0, 14 * 86400.0):
        assert parse_duration(short(seconds)) == seconds
