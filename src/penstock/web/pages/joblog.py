"""The output of a job, as it comes, with search."""

import html
import re
from collections import deque

from nicegui import ui

from penstock.web.layout import Text, ask
from penstock.web.viewer import Viewer

_MOST_LINES = 2000
_PIECES = 4
"""Pieces of output read at once, so that a long log neither blocks the page nor takes for ever."""


class LogPane:
    """The last lines of a job's output; only those that hold what is searched for."""

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
                self._search = ui.input("Search the output").props("outlined dense clearable debounce=200 type=search")
                self._search.classes("ps-push").on_value_change(self._show)
            self._pane = ui.html("", sanitize=False, tag="pre").classes("ps-log")
            self._pane.props('id="job-log" role="log" aria-live="off" tabindex="0" aria-label="Output of the job"')
        self._show()

    async def refresh(self) -> None:
        """Read what has come since."""
        news = False
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
            self._show()

    def _show(self) -> None:
        lines = [*self._lines, *([self._rest] if self._rest else [])]
        wanted = (self._search.value or "").strip()
        shown = [line for line in lines if wanted.lower() in line.lower()] if wanted else lines
        content = marked("\n".join(shown), wanted) if shown else self._nothing(wanted)
        if content != self._pane.content:
            self._pane.set_content(content)
            ui.run_javascript('requestAnimationFrame(() => penstock.follow("job-log"))')
        counted = f"{len(shown)} of {len(lines)} lines" if wanted else f"the last {len(lines)} lines"
        self._count.show(counted if lines else "")

    def _nothing(self, wanted: str) -> str:
        if wanted:
            return f"no line holds “{html.escape(wanted)}”"
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
