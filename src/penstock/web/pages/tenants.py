"""Tenants: who uses how much, now and over time, and what each may have at most."""

from fastapi import Request
from nicegui import ui

from penstock.control import Action
from penstock.core import counted
from penstock.web import charts
from penstock.web.format import device_time, percent
from penstock.web.layout import Figure, Text, ask, attempt, empty, live, table_html
from penstock.web.pages.cluster import SPANS
from penstock.web.pages.tenant_accounts import AccountSection
from penstock.web.view_models import TenantUse
from penstock.web.viewer import Viewer
from penstock.wire import QuotaView

_LIMITS = {"active_jobs": "Jobs at once", "devices": "Devices", "requests_per_s": "Requests per second"}
_COLUMNS = ("Tenant", "Share of use", "Device time", "Devices now", "Running", "Waiting")


async def build(viewer: Viewer, _: Request) -> None:
    figure = Figure("Devices held by each tenant", 260)
    with figure.head:
        toggle = ui.toggle(dict(SPANS), value=600).props("dense unelevated no-caps")
        toggle.classes("ps-push").props('aria-label="How far to look back"')
    with ui.element("section").classes("ps-card").props('aria-label="Usage by tenant"'):
        table = Text()
        nothing = ui.element("div").classes("w-full")
        with nothing:
            empty("Nobody has used anything yet", "A tenant appears here with its first job.")

    accounts = AccountSection(viewer)
    quotas = QuotaSection(viewer)

    async def refresh() -> None:
        span = float(toggle.value or 600)
        lines = await ask(viewer.tenants, span)
        now = viewer.now()
        rows = [row_of(line) for line in lines]
        words = "; ".join(f"{line.tenant} {percent(line.share)}" for line in lines) or "no use"
        figure.show(charts.usage(lines, now - span, now), f"Share of device time: {words}.", _COLUMNS, rows)
        table.show(table_html(_COLUMNS, rows) if rows else "")
        nothing.set_visibility(not rows)
        figure.card.set_visibility(any(line.device_seconds for line in lines))
        await accounts.refresh()
        await quotas.refresh()

    toggle.on_value_change(refresh)
    await refresh()
    live(viewer, refresh, idle_s=5.0)


class QuotaSection:
    """Limits of tenants, for those whom they concern; admins set them."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        with ui.element("section").classes("ps-card ps-form").props('aria-label="Quotas"'):
            ui.html("Quotas", sanitize=False, tag="h2")
            self._table = Text()
            if viewer.may(Action.QUOTAS):
                self._form()

    def _form(self) -> None:
        with ui.element("div").classes("ps-row"):
            self._tenant = ui.input("Tenant, or * for all others").props("outlined dense")
            self._limits = {key: ui.input(label).props("outlined dense") for key, label in _LIMITS.items()}
        ui.button("Set the quota", on_click=self._set).props("unelevated no-caps").classes("ps-primary")
        ui.label("An empty field is no limit.").classes("ps-soft")

    async def _set(self) -> None:
        tenant = (self._tenant.value or "").strip()
        limits = {key: field.value or "" for key, field in self._limits.items()}
        if await attempt(self._viewer.set_quota, tenant, limits, done=f"The quota of {tenant} is set"):
            await self.refresh()

    async def refresh(self) -> None:
        rows = [quota_row(quota) for quota in await ask(self._viewer.quotas)]
        self._table.show(table_html(("Tenant", *_LIMITS.values()), rows) if rows else "<p>No tenant is limited.</p>")


def quota_row(quota: QuotaView) -> list[str]:
    limits = (quota.active_jobs, quota.devices, quota.requests_per_s)
    tenant = "everybody else" if quota.tenant == "*" else quota.tenant
    return [tenant, *("no limit" if limit is None else f"{limit:g}" for limit in limits)]


def row_of(line: TenantUse) -> list[str]:
    return [
        line.tenant, percent(line.share), device_time(line.device_seconds), counted(line.devices, "device"),
        str(line.running), str(line.waiting),
    ]  # fmt: skip
