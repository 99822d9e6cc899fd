"""Who ran where: bars that cover what was held, on a page that needs nothing else."""

import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from penstock.core import Cluster, Deadline, Grant
from penstock.simulate import Bar, Timeline, draw
from tests.simulate.build import job, run


class Page(HTMLParser):
    """Tags, titles of bars, and whatever would be fetched from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.bars: list[dict[str, str | None]] = []
        self.titles: list[str] = []
        self._in_title = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._in_title = tag == "title"
        if tag == "rect":
            self.bars.append(dict(attrs))

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.titles.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._in_title = self._in_title and tag != "title"


def test_a_gang_is_drawn_in_runs_of_neighbours() -> None:
    timeline = Timeline()
    timeline.add(Grant("a", "gpu", (0, 1, 3, 5, 6), nodes=1), 10.0, 20.0)
    assert timeline.bars == [Bar("a", 0, 2, 10.0, 20.0), Bar("a", 3, 1, 10.0, 20.0), Bar("a", 5, 2, 10.0, 20.0)]


@pytest.mark.parametrize("end", [10.0, 9.0])
def test_what_was_not_held_is_not_drawn(end: float) -> None:
    timeline = Timeline()
    timeline.add(Grant("a", "gpu", (0,), nodes=1), 10.0, end)
    assert timeline.bars == []


def test_bars_cover_every_device_second() -> None:
    jobs = [job("a", 400.0, goal=Deadline(1000.0)), job("b", at=10.0, at_most=2, goal=Deadline(500.0))]
    result = run(jobs, policy="edf", timeline=True)
    assert result.timeline is not None
    drawn = dict.fromkeys("ab", 0.0)
    for bar in result.timeline.bars:
        drawn[bar.job_id] += bar.count * (bar.end - bar.start)
    assert drawn == {outcome.id: outcome.device_seconds for outcome in result.outcomes}
    assert drawn["a"] == 4 * 10 + 2 * 50 + 4 * 65


def test_no_two_bars_overlap() -> None:
    jobs = [job(f"j{i}", 50.0 + 7 * i, at=3.0 * i, goal=Deadline(400.0 + i)) for i in range(12)]
    result = run(jobs, "2x4", "deadline", timeline=True)
    assert result.timeline is not None
    cells = [
        (device, bar)
        for bar in result.timeline.bars
        for device in range(bar.first_device, bar.first_device + bar.count)
    ]
    for device in range(8):
        spans = sorted((bar.start, bar.end) for at, bar in cells if at == device)
        assert all(before[1] <= after[0] + 1e-9 for before, after in pairwise(spans))


def test_a_run_without_a_timeline_keeps_none() -> None:
    assert run([job("a")]).timeline is None


@pytest.fixture
def page() -> str:
    jobs = [
        job("<script>alert('x')</script>", requested=2, goal=Deadline(1000.0)),
        job('late" onload="x', 200.0, requested=2, goal=Deadline(60.0)),
    ]
    return draw(run(jobs, timeline=True), Cluster.parse("1x4"))


def test_the_page_stands_alone(page: str) -> None:
    assert page.startswith("<!doctype html>")
    assert not re.search(r"https?:|//|@import|url\(|<link|<img|<script|src=|href=", page)
    assert {"svg", "style", "title"} <= set(Page(page).tags)


def test_ids_are_escaped(page: str) -> None:
    drawn = Page(page)
    assert "script" not in drawn.tags
    assert all("onload" not in bar for bar in drawn.bars)
    assert drawn.titles[1:] == [
        "<script>alert('x')</script>: 2 devices for 50s, met",
        'late" onload="x: 2 devices for 1m 40s, late',
    ]


def test_the_headline_and_late_jobs_are_marked(page: str) -> None:
    drawn = Page(page)
    assert drawn.titles[0] == "fifo: 1 of 2 deadlines met"
    assert [bar.get("class") for bar in drawn.bars] == [None, "late"]


def test_bars_lie_where_and_when_they_were(page: str) -> None:
    first, second = ({key: float(bar[key] or 0) for key in ("x", "y", "width", "height")} for bar in Page(page).bars)
    assert first["x"] == second["x"]
    assert first["width"] == pytest.approx(second["width"] / 2, abs=0.01), "50 s and 100 s"
    assert (first["y"], second["y"]) == (0.0, first["height"])


def test_nodes_and_times_are_labelled(page: str) -> None:
    assert ">node-0</text>" in page
    assert ">1m 40s</text>" in page


def test_a_run_without_bars_is_still_a_page() -> None:
    drawn = Page(draw(run([]), Cluster.parse("1x4")))
    assert (drawn.bars, drawn.titles) == ([], ["fifo: 0 of 0 deadlines met"])


def test_a_large_cluster_fits_on_the_page() -> None:
    text = draw(run([job("a")], "64x16", timeline=True), Cluster.parse("64x16"))
    height = float(re.search(r"viewBox='0 0 \d+ (\d+)'", text)[1])  # type: ignore[index]
    assert height < 700
    assert text.count("</text>") < 60
