"""What if another policy had been in charge: this server's own past, replayed."""

import math

from fastapi import Request
from nicegui import ui

from penstock.control import PolicyOutcome
from penstock.core import PenstockError, format_duration
from penstock.policies import POLICIES
from penstock.web import charts
from penstock.web.format import percent
from penstock.web.layout import Figure, Text, ask, empty, table_html
from penstock.web.viewer import Viewer

_EXPLANATION = (
    "Replays every job this server has seen, with its deadlines, cancellations and lost nodes, under the policies you "
    "choose. Speeds are those known now. Nothing running is touched."
)
_USUAL = ("deadline", "elasticflow", "edf", "fifo")
_COLUMNS = ("policy", "deadlines met", "late", "refused", "mean completion", "mean waiting", "resizes", "use")


async def build(viewer: Viewer, _: Request) -> None:
    if viewer.is_admin:
        Replay(viewer)
    else:
        with ui.element("div").classes("ps-card"):
            empty("For admins", "A replay takes everybody's jobs, so it needs a token of the role admin.")


class Replay:
    """Policies to choose from, a button, and what came of it."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        with ui.element("section").classes("ps-card").props('aria-label="Policies to compare"'):
            ui.label(_EXPLANATION).classes("ps-soft")
            usual = [name for name in _USUAL if name in POLICIES]
            self._chosen = ui.select(list(POLICIES), label="Policies", multiple=True, value=usual)
            self._chosen.props("outlined use-chips").classes("w-full").style("margin: 12px 0")
            self._start = ui.button("Replay").props("unelevated no-caps").classes("ps-primary")
            self._state = ui.label().props('role="status"').classes("ps-soft")
        self._result = ui.element("div").classes("w-full")
        with self._result:
            self._figure = Figure("Deadlines under each policy", 260)
            with ui.element("section").classes("ps-card").props('aria-label="Comparison"').style("margin-top: 16px"):
                self._table = Text()
        self._result.set_visibility(False)
        self._start.on_click(self.run)

    async def run(self) -> None:
        wanted = list(self._chosen.value or ())
        if not wanted:
            ui.notify("Choose at least one policy", type="warning")
            return
        self._start.disable()
        self._state.set_text(f"Replaying under {', '.join(wanted)} …")
        try:
            rows = await ask(self._viewer.what_if, wanted, lambda _: None)
            self._show(rows)
            self._state.set_text(f"{rows[0].jobs} jobs replayed.")
        except PenstockError as error:
            self._state.set_text(str(error))
        finally:
            self._start.enable()

    def _show(self, rows: list[PolicyOutcome]) -> None:
        cells = [row_of(row) for row in rows]
        words = "; ".join(f"{row[0]}: {row[1]} met" for row in cells)
        self._figure.height(90 + 40 * len(rows))
        self._figure.show(charts.comparison(rows), f"Deadlines met by policy: {words}.", _COLUMNS, cells)
        self._table.show(table_html(_COLUMNS, cells))
        self._result.set_visibility(True)


def row_of(row: PolicyOutcome) -> list[str]:
    return [
        f"{row.policy}, as it was" if row.real else row.policy, f"{row.met} of {row.with_deadline}", str(row.late),
        str(row.refused), _seconds(row.completion_s), _seconds(row.waiting_s), str(row.resizes),
        "–" if math.isnan(row.utilisation) else percent(row.utilisation),
    ]  # fmt: skip


def _seconds(value: float) -> str:
    return "–" if math.isnan(value) else format_duration(value)
