"""The start page: the jobs of now with their promises, then who held what, who holds it, and who is planned to."""

from collections.abc import Mapping

from fastapi import Request
from nicegui import ui

from penstock.core import counted, format_duration
from penstock.web import cluster_svg
from penstock.web.format import WAITING, clock, energy, power
from penstock.web.layout import Drawing, Text, ask, live, tiles_of
from penstock.web.pages.job_outlook import ActiveJobList
from penstock.web.view_models import ClusterTimeline
from penstock.web.viewer import Viewer

SPANS = {600: "10 min", 3600: "1 h", 21600: "6 h", 86400: "1 d", 604800: "1 w"}
_MOST_ROWS = 60
_LEVEL_PX = 130
_LEGEND = (
    "<span>held</span><span class='planned'>planned</span><span class='other'>another tenant</span>"
    "<span class='trouble'>failure</span>"
)


async def build(viewer: Viewer, _: Request) -> None:
    chosen = {"span": 600}
    jobs = ActiveJobList(everybody=viewer.is_admin)
    tiles = Text(classes="w-full")
    figure = Drawing("Devices over time", _LEGEND)
    with figure.head:
        toggle = ui.toggle(dict(SPANS), value=600).props("dense unelevated no-caps")
        toggle.classes("ps-push").props('aria-label="How far to look back"')
    with figure.card:
        note = Text(classes="ps-soft")
    with ui.element("div").classes("ps-grid2"):
        busy, waiting = Drawing("Devices in use"), Drawing("Jobs waiting")

    async def refresh() -> None:
        jobs.show(await ask(viewer.active_jobs))
        timeline = await ask(viewer.cluster, float(chosen["span"]))
        tiles.show(tiles_html(timeline))
        drawn = cluster_svg.gantt(timeline, _height(timeline))
        figure.show(drawn, cluster_svg.in_words(timeline), _COLUMNS, _rows(timeline))
        note.show(_left_out(timeline))
        figure.card.set_visibility(bool(timeline.spans))
        _show_levels(busy, waiting, timeline)

    async def choose() -> None:
        chosen["span"] = toggle.value or 600
        await refresh()

    toggle.on_value_change(choose)
    await refresh()
    live(viewer, refresh, idle_s=4.0)


_COLUMNS = ("job", "name", "devices", "from", "to", "")


def _rows(timeline: ClusterTimeline) -> list[list[str]]:
    latest = sorted(timeline.spans, key=lambda span: span.bar.start, reverse=True)[:_MOST_ROWS]
    held = [
        [span.bar.job_id or "–", span.name, f"{span.bar.first_device}–{span.bar.last_device}",
         clock(span.bar.start), clock(span.bar.end), "planned" if span.planned else "held"]
        for span in latest
    ]  # fmt: skip
    return held + [["–", mark.text, "–", clock(mark.at), "–", "event"] for mark in timeline.marks[-20:]]


def _show_levels(busy: Drawing, waiting: Drawing, timeline: ClusterTimeline) -> None:
    shown = (
        (busy, timeline.busy, "devices", timeline.devices, 0),
        (waiting, timeline.waiting, "jobs", None, 1),
    )
    for figure, steps, unit, most, hue in shown:
        last = round(steps[-1][1]) if steps else 0
        words = f"{last} {unit} now; at most {round(max((v for _, v in steps), default=0))} in this time."
        rows = [[clock(at), f"{value:.0f}"] for at, value in steps[-_MOST_ROWS:]]
        drawn = cluster_svg.levels(timeline, steps, unit, most, hue, _LEVEL_PX)
        figure.show(drawn, words, ("from", unit), rows)
        figure.card.set_visibility(any(value for _, value in steps))


def tiles_html(timeline: ClusterTimeline) -> str:
    """The figures a person looks for first."""
    busy = round(timeline.busy[-1][1]) if timeline.busy else 0
    up = timeline.devices - timeline.down
    counts = timeline.counts
    queued = sum(counts.get(state, 0) for state in WAITING)
    down = f", {counted(timeline.down, 'device')} down" if timeline.down else ""
    tiles = [
        ("Devices in use", f"{busy} of {up}", f"{up - busy} free{down}"),
        ("Running", f"{counts.get('running', 0):,}", counted(counts.get("paused", 0), "job") + " paused"),
        ("Waiting", f"{queued:,}", "for devices or an answer"),
        ("Finished", f"{counts.get('finished', 0):,}", _bad_ends(counts)),
        _power_tile(timeline),
    ]  # fmt: skip
    return tiles_of(tiles)


def _bad_ends(counts: Mapping[str, int]) -> str:
    return f"{counts.get('failed', 0)} failed, {counts.get('declined', 0)} refused"


def _power_tile(timeline: ClusterTimeline) -> tuple[str, str, str]:
    if timeline.power is None:
        return "Power", "–", "no node says what it draws"
    since = timeline.power.since
    span = "since the server started" if since is None else f"in the last {format_duration(timeline.now - since)}"
    how = "estimated, " if timeline.power.estimated else ""
    return "Power", power(timeline.power.watts), f"{how}{energy(timeline.power.joules)} {span}"


def _height(timeline: ClusterTimeline) -> int:
    return min(600, max(110, timeline.devices * (26 if timeline.devices <= 16 else 8)))


def _left_out(timeline: ClusterTimeline) -> str:
    return f"{timeline.left_out:,} short stretches are not drawn; look at a shorter time." if timeline.left_out else ""
