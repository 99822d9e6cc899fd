"""Tenants: who uses how much, now and over time."""

from fastapi import Request
from nicegui import ui

from penstock.web import charts
from penstock.web.format import device_time, percent, plural
from penstock.web.layout import Figure, Text, ask, empty, live, table_html
from penstock.web.pages.cluster import SPANS
from penstock.web.view_models import TenantUse
from penstock.web.viewer import Viewer

_COLUMNS = ("tenant", "share of use", "device time", "devices now", "running", "waiting")


async def build(viewer: Viewer, _: Request) -> None:
    figure = Figure("Devices held by each tenant", 260)
    with figure.head:
        toggle = ui.toggle(dict(SPANS), value=3600).props("dense unelevated no-caps")
        toggle.classes("ps-push").props('aria-label="How far to look back"')
    with ui.element("section").classes("ps-card").props('aria-label="Usage by tenant"'):
        table = Text()
        nothing = ui.element("div").classes("w-full")
        with nothing:
            empty("Nobody has used anything yet", "A tenant appears here with its first job.")

    async def refresh() -> None:
        span = float(toggle.value or 3600)
        lines = await ask(viewer.tenants, span)
        now = viewer.now()
        rows = [row_of(line) for line in lines]
        words = "; ".join(f"{line.tenant} {percent(line.share)}" for line in lines) or "no use"
        figure.show(charts.usage(lines, now - span, now), f"Share of device time: {words}.", _COLUMNS, rows)
        table.show(table_html(_COLUMNS, rows) if rows else "")
        nothing.set_visibility(not rows)

    toggle.on_value_change(refresh)
    await refresh()
    live(viewer, refresh, idle_s=5.0)


def row_of(line: TenantUse) -> list[str]:
    return [
        line.tenant, percent(line.share), device_time(line.device_seconds), plural(line.devices, "device"),
        str(line.running), str(line.waiting),
    ]  # fmt: skip
