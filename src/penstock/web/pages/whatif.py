"""What if other rules had held: this server's own past, replayed."""

from fastapi import Request
from nicegui import ui

from penstock.control import WHATIF_COLUMNS, whatif_rows, whatif_sentences
from penstock.core import PenstockError
from penstock.policies import POLICIES
from penstock.simulate import parse_shares
from penstock.web import charts
from penstock.web.layout import Figure, Text, ask, empty, table_html
from penstock.web.viewer import Viewer
from penstock.wire import WhatIfReport, WhatIfRequest

_EXPLANATION = (
    "Replays every job of the chosen time, with its deadlines, its real speed, cancellations, failures and lost nodes: "
    "first as it ran, which shows how far a replay can be trusted here, then under the rules you choose. Nothing "
    "running is touched."
)
_USUAL = ("elasticflow", "edf", "fifo")


async def build(viewer: Viewer, _: Request) -> None:
    if viewer.is_admin:
        WhatIfForm(viewer)
    else:
        with ui.element("div").classes("ps-card"):
            empty("For admins", "A replay takes everybody's jobs, so it needs a token of the role admin.")


class WhatIfForm:
    """Rules to choose, a button, and what came of it."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        with ui.element("section").classes("ps-card").props('aria-label="What should have been otherwise"'):
            ui.label(_EXPLANATION).classes("ps-soft")
            usual = [name for name in _USUAL if name in POLICIES]
            self._policies = ui.select(list(POLICIES), label="Policies", multiple=True, value=usual)
            self._policies.props("outlined use-chips").classes("w-full").style("margin: 12px 0")
            with ui.row().classes("w-full"):
                self._since = _field("Since", "30d", "30d")
                self._devices = _field("Devices", "", "+8, -8 or 64")
                self._tenants = _field("Shares of tenants", "", "vision=2")
                self._anyway = ui.checkbox("Compare even where the past is not reproduced")
            self._start = ui.button("Replay").props("unelevated no-caps").classes("ps-primary").style("margin: 12px 0")
            self._state = ui.label().props('role="status"').classes("ps-soft")
        self._result = ui.element("div").classes("w-full")
        with self._result:
            self._figure = Figure("Promises under each scenario", 260)
            with ui.element("section").classes("ps-card").props('aria-label="Comparison"').style("margin-top: 16px"):
                self._table = Text()
            with ui.element("section").classes("ps-card").props('aria-label="In words"').style("margin-top: 16px"):
                self._words = ui.column()
        self._result.set_visibility(False)
        self._start.on_click(self.run)

    async def run(self) -> None:
        self._start.disable()
        self._state.set_text("Replaying …")
        try:
            wanted = WhatIfRequest(
                since=self._since.value or "30d", policies=list(self._policies.value or ()),
                devices=self._devices.value or "", shares=parse_shares(self._tenants.value or ""),
                anyway=bool(self._anyway.value),
            )  # fmt: skip
            report = await ask(self._viewer.what_if, wanted)
            self._show(report)
            said = "" if report.conclusive else " The past is not reproduced well enough to conclude anything."
            self._state.set_text(f"{report.jobs} jobs replayed.{said}")
        except (PenstockError, ValueError) as error:
            self._state.set_text(str(error))
        finally:
            self._start.enable()

    def _show(self, report: WhatIfReport) -> None:
        cells = whatif_rows(report)
        words = "; ".join(f"{row[0]}: {row[1]} kept" for row in cells)
        self._figure.height(90 + 40 * len(cells))
        self._figure.show(charts.comparison(report), f"Promises by scenario: {words}.", WHATIF_COLUMNS, cells)
        self._table.show(table_html(WHATIF_COLUMNS, cells))
        self._words.clear()
        with self._words:
            for sentence in whatif_sentences(report):
                ui.label(sentence)
        self._result.set_visibility(True)


def _field(label: str, value: str, example: str) -> ui.input:
    return ui.input(label, value=value, placeholder=example).props("outlined dense stack-label")
