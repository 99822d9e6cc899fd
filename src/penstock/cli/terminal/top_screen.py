"""The platform on one screen: devices, jobs and news, as much of each as there is room for."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.terminal.console import plain_table
from penstock.cli.terminal.control_characters import plain_text
from penstock.cli.terminal.format import bar, clock
from penstock.core import format_duration

if TYPE_CHECKING:
    from penstock.wire import DeviceView, EventView, JobGlance, NodeGlance, OverviewView

_LEVELS = "▁▂▃▄▅▆▇█"
_HUES = ("cyan", "magenta", "yellow", "green", "blue", "bright_red", "bright_cyan", "bright_magenta")
_MARKS = {"free": "·", "lost": "x", "drained": "-", "draining": "-"}
_STYLES = {
    "running": "green", "finishing": "cyan", "pending": "yellow", "asking": "yellow", "preparing": "yellow",
    "suspended": "magenta", "paused": "dim", "blocked": "dim",
}  # fmt: skip
_WAITING = ("blocked", "preparing", "asking", "pending", "suspended")
_COLUMNS = ("job", "name", "tenant", "state", "dev", "progress", "loss", "deadline", "expected", "promise")
_ROOMY = 118
HELP = "q quit   j all, running, waiting   p promised only   space hold"


class Show(StrEnum):
    """Which jobs are on the screen."""

    ALL = "all"
    RUNNING = "running"
    WAITING = "waiting"

    def next(self) -> "Show":
        order = list(Show)
        return order[(order.index(self) + 1) % len(order)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """How much room there is and what is wanted in it; no height means as much as there is."""

    width: int = 100
    height: int | None = None
    show: Show = Show.ALL
    promised_only: bool = False
    held: bool = False
    trouble: str = ""

    def wants(self, job: "JobGlance") -> bool:
        if self.promised_only and not job.promised:
            return False
        if self.show is Show.RUNNING:
            return job.state == "running"
        return self.show is Show.ALL or job.state in _WAITING


def draw(seen: "OverviewView", screen: Screen) -> RenderableType:
    """Everything, cut to fit: first the news, then the nodes, last the jobs give way."""
    jobs = [job for job in seen.jobs if screen.wants(job)]
    news = list(seen.events)
    nodes = list(seen.nodes)
    if screen.height is not None:
        room = max(screen.height - 7, 3)
        news = news[-min(len(news), max(room // 5, 1)) :]
        shown_nodes = max(1, (room // 4) * max(1, screen.width // _node_width(nodes)))
        nodes = nodes[:shown_nodes]
        lines = -(-len(nodes) * _node_width(nodes) // screen.width)
        jobs = jobs[: max(1, room - len(news) - lines)]
    hidden = len(seen.jobs) + seen.left_out - len(jobs)
    parts: list[RenderableType] = [_headline(seen, screen), _counts(seen)]
    parts += [Columns([_node(node) for node in nodes], padding=(0, 3)), Text(_left_out(len(seen.nodes) - len(nodes)))]
    parts += [_jobs(jobs, seen.now, hidden, screen.width), *_news(news)]
    if screen.height is not None:
        parts.append(Text(HELP + ("   (held)" if screen.held else ""), style="dim"))
    return Group(*(part for part in parts if not isinstance(part, Text) or part.plain))


def _headline(seen: "OverviewView", screen: Screen) -> Text:
    text = Text.assemble(("Penstock", "bold"), f"  {seen.policy}  {clock(seen.now)}  ")
    full = f" ({100 * seen.held / seen.devices:.0f}%)" if seen.devices else ""
    text.append(f"{seen.held} of {seen.devices} devices held{full}")
    if seen.utilisation is not None:
        text.append(f", {100 * seen.utilisation:.0f}% busy")
    if seen.power_w is not None:
        text.append(f", {seen.power_w / 1000:.2f} kW" if seen.power_w >= 1000 else f", {seen.power_w:.0f} W")
    trouble = screen.trouble or seen.trouble
    if trouble:
        text.append(f"  {trouble}", style="bold red")
    for warning in seen.warnings:
        text.append(f"\n{warning}", style="yellow")
    return text


def _counts(seen: "OverviewView") -> Text:
    text = Text()
    for state, count in sorted(seen.counts.items(), key=lambda item: (item[0] not in _STYLES, item[0])):
        text.append(f"{count} {state}   ", style=_STYLES.get(state, "dim"))
    if seen.oldest_wait_s is not None:
        text.append(f"longest wait {format_duration(seen.oldest_wait_s)}")
    return text


def _node_width(nodes: "Sequence[NodeGlance]") -> int:
    return max((len(node.name) + len(node.devices) + len(node.state) + 6 for node in nodes), default=1)


def _node(node: "NodeGlance") -> Text:
    text = Text.assemble((f"{node.name} ", "bold"))
    for device in node.devices:
        text.append(*_cell(device))
    text.append(
        f" {node.kind}" if node.state == "up" else f" {node.state}", style="dim" if node.state == "up" else "red"
    )
    return text


def _cell(device: "DeviceView") -> tuple[str, str]:
    """One sign a device: its height is how busy it is, its colour whose it is."""
    if device.state != "held":
        return _MARKS.get(device.state, "?"), "dim" if device.state == "free" else "red"
    share = 1.0 if device.utilisation is None else min(max(device.utilisation, 0.0), 1.0)
    style = _HUES[zlib.crc32(device.job_id.encode()) % len(_HUES)] if device.job_id else "dim"
    return _LEVELS[round(share * (len(_LEVELS) - 1))], style


def _left_out(count: int) -> str:
    return f"and {count} more nodes" if count > 0 else ""


def _jobs(jobs: "Sequence[JobGlance]", now: datetime, hidden: int, width: int) -> Table:
    """Where it is narrow, what one can do without goes first."""
    left_out = {"tenant", "loss", "deadline"} if width < _ROOMY else set()
    columns = [name for name in _COLUMNS if name not in left_out]
    table = plain_table(*columns)
    for job in jobs:
        cells = _cells(job, now)
        table.add_row(*(cells[name] for name in columns))
    if hidden > 0:
        table.add_row(Text(f"and {hidden} more", style="dim"))
    return table


def _cells(job: "JobGlance", now: datetime) -> dict[str, RenderableType]:
    hue = _HUES[zlib.crc32(job.id.encode()) % len(_HUES)] if job.devices else ""
    return {
        "job": Text(job.id, hue), "name": _shortened(job.name, 18), "tenant": _shortened(job.tenant, 12),
        "state": Text(job.state, _STYLES.get(job.state, "")), "dev": str(job.devices), "progress": bar(job.share_done),
        "loss": "-" if job.loss is None else f"{job.loss:.4g}", "deadline": _away(job.deadline, now),
        "expected": _away(job.forecast_at, now), "promise": _standing(job),
    }  # fmt: skip


def _standing(job: "JobGlance") -> Text:
    """The promise against the forecast."""
    mark = "promised" if job.promised else "asked" if job.deadline is not None else ""
    if job.slack_s is None:
        return Text(mark, "dim")
    if job.slack_s >= 0:
        return Text(f"{mark}, {format_duration(job.slack_s)} to spare", "green")
    return Text(f"{mark}, late by {format_duration(-job.slack_s)}", "bold red")


def _away(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return "-"
    seconds = (moment - now).total_seconds()
    return f"in {format_duration(seconds)}" if seconds >= 0 else f"{format_duration(-seconds)} ago"


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _news(events: "Sequence[EventView]") -> Iterator[Text]:
    for event in events:
        told = f"{clock(event.at)}  {event.kind:<16} {event.job_id or ''} {_detail(event.payload)}"
        yield Text(plain_text(told).rstrip(), "dim")


def _detail(payload: dict[str, object]) -> str:
    """What of an entry is worth a few letters."""
    told = [
        f"{name} {payload[name]}" for name in ("node", "reason", "width", "worker") if payload.get(name) is not None
    ]
    return ", ".join(told)
