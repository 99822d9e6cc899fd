"""What a job has saved: checkpoints it can go on from, and files to take away."""

import html
import time
from urllib.parse import quote

from nicegui import ui

from penstock.core import PenstockError, format_bytes
from penstock.web.format import number, short_clock
from penstock.web.layout import Text, ask, rich_table
from penstock.web.urls import job_url
from penstock.web.viewer import Viewer
from penstock.wire import CheckpointList, FileList, FileView

_EVERY_S = 10.0
_MOST_ROWS = 12


class SavedFileList:
    """Two short lists; nothing is shown of a job that has saved nothing."""

    def __init__(self, viewer: Viewer, job_id: str) -> None:
        self._viewer, self._id = viewer, job_id
        self._looked_at = -_EVERY_S
        with ui.element("section").classes("ps-card").props('aria-label="Saved"') as self._card:
            ui.html("Checkpoints and files", sanitize=False, tag="h2").style("margin-bottom: 8px")
            self._text = Text()
        self._card.set_visibility(False)

    async def refresh(self) -> None:
        """Look again, now and then: it means reading a directory."""
        if time.monotonic() - self._looked_at < _EVERY_S:
            return
        self._looked_at = time.monotonic()
        try:
            checkpoints, files = await ask(self._viewer.saved, self._id)
        except (PenstockError, OSError):
            return
        self._text.show(saved_html(self._id, checkpoints, files))
        self._card.set_visibility(bool(checkpoints.checkpoints or files.files))


def saved_html(job_id: str, checkpoints: CheckpointList, files: FileList) -> str:
    """Where it lies, what is in it, and links to what can be fetched."""
    saved = [
        [
            html.escape(one.path), number(one.step), format_bytes(one.bytes), short_clock(one.saved_at),
            html.escape(one.where), html.escape(one.condition),
        ]
        for one in checkpoints.checkpoints[:_MOST_ROWS]
    ]  # fmt: skip
    listed = [
        [_name(job_id, one), format_bytes(one.bytes), short_clock(one.changed_at)] for one in files.files[:_MOST_ROWS]
    ]
    more = len(files.files) > _MOST_ROWS or files.truncated
    tables = ((("Checkpoint", "Step", "Size", "Saved", "Where", "State"), saved), (("File", "Size", "Changed"), listed))
    return (
        f"<p class='ps-soft'>in <code>{html.escape(files.place)}</code></p>"
        + "".join(rich_table(columns, rows) for columns, rows in tables if rows)
        + ("<p class='ps-soft'>and more: <code>penstock files</code> lists all</p>" if more else "")
    )


def _name(job_id: str, file: FileView) -> str:
    name = html.escape(file.path)
    return f'<a href="{job_url(job_id)}/files?path={quote(file.path)}">{name}</a>' if file.kind == "file" else name
