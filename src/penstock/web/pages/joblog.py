"""The output of a job, as it comes: by worker, by level, with search, and as a file."""

import html
import re
from collections import deque

from nicegui import ui

from penstock.web.layout import Text, ask
from penstock.web.log_levels import Level, levelled, rank_of
from penstock.web.urls import job_url
from penstock.web.viewer import Viewer

_MOST_LINES = 2000
_PIECES = 4
"""Pieces of output read at once, so that a long log neither blocks the page nor takes for ever."""
_LEVELS = {Level.USUAL: "All lines", Level.WARNING: "Warnings and errors", Level.ERROR: "Errors"}
_EVERY_WORKER = "All workers"


class LogPane:
    """The last lines of a job's output; only those that somebody looks for."""

    def __init__(self, viewer: Viewer, job_id: str) -> None:
        self._viewer, self._id = viewer, job_id
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self._rest = ""
        self._cursor: str | None = None
        self._complete = False
        with ui.element("section").classes("ps-card").props('aria-label="Output"'):
            with ui.element("div").classes("ps-head"):
                ui.html("Output", sanitize=False, tag="h2")
                self._count = Text(classes="ps-soft")
                self._filters()
            self._pane = ui.html("", sanitize=False, tag="pre").classes("ps-log")
            self._pane.props('id="job-log" role="log" aria-live="off" tabindex="0" aria-label="Output of the job"')
        self._show()

    def _filters(self) -> None:
        with ui.element("div").classes("ps-push ps-filters"):
            self._worker = ui.select([_EVERY_WORKER], value=_EVERY_WORKER, label="Worker")
            self._level = ui.select(dict(_LEVELS), value=Level.USUAL, label="Level")
            for choice in (self._worker, self._level):
                choice.props("outlined dense options-dense").on_value_change(self._show)
            self._search = ui.input("Search the output").props("outlined dense clearable debounce=200 type=search")
            self._search.on_value_change(self._show)
            address = f"{job_url(self._id)}/output.txt"
            ui.html(f'<a href="{html.escape(address)}" download>Download</a>', sanitize=False)

    async def refresh(self) -> None:
        """Read what has come since."""
        news, was_complete = False, self._complete
        for _ in range(_PIECES):
            if self._complete:
                break
            page = await ask(self._viewer.log, self._id, self._cursor)
            self._cursor, self._complete = page.next, page.complete
            if not page.text:
                break
            news = True
            *whole, self._rest = (self._rest + page.text).split("\n")
            self._lines.extend(whole)
        if news:
            self._offer_workers()
        if news or self._complete != was_complete:
            self._show()

    def _offer_workers(self) -> None:
        """Each worker that has said something; a single one is no choice."""
        ranks = sorted({rank for line in self._lines if (rank := rank_of(line))}, key=int)
        offered = [_EVERY_WORKER, *(f"Worker {rank}" for rank in ranks)]
        if offered != self._worker.options:
            self._worker.set_options(offered)
        self._worker.set_visibility(len(ranks) > 1)

    def _show(self) -> None:
        lines = [*self._lines, *([self._rest] if self._rest else [])]
        wanted = (self._search.value or "").strip()
        shown = self._chosen(lines, wanted)
        content = marked("\n".join(shown), wanted) if shown else self._nothing(wanted, bool(lines))
        if content != self._pane.content:
            self._pane.set_content(content)
            ui.run_javascript('requestAnimationFrame(() => penstock.follow("job-log"))')
        counted = f"{len(shown)} of {len(lines)} lines" if len(shown) < len(lines) else f"the last {len(lines)} lines"
        self._count.show(counted if lines else "")

    def _chosen(self, lines: list[str], wanted: str) -> list[str]:
        worker, level = str(self._worker.value or ""), self._level.value or Level.USUAL
        of_worker = [line for line in lines if worker in ("", _EVERY_WORKER) or f"Worker {rank_of(line)}" == worker]
        grave = of_worker if level == Level.USUAL else [line for found, line in levelled(of_worker) if found >= level]
        return [line for line in grave if wanted.lower() in line.lower()] if wanted else grave

    def _nothing(self, wanted: str, filtered: bool) -> str:
        if wanted:
            return f"no line holds “{html.escape(wanted)}”"
        if filtered:
            return "no such line among the last ones"
        return "it printed nothing" if self._complete else "nothing yet: output appears here as it comes"


def marked(text: str, wanted: str) -> str:
    """Escaped, with every hit marked."""
    if not wanted:
        return html.escape(text)
    parts = re.split(f"({re.escape(wanted)})", text, flags=re.IGNORECASE)
    return "".join(
        f"<mark>{html.escape(part)}</mark>" if position % 2 else html.escape(part)
        for position, part in enumerate(parts)
    )
