"""What tenants share, lend and borrow, and how fairly they fare: bars for everybody, a form for admins."""

import html

from nicegui import ui

from penstock.control import Action
from penstock.web.format import device_time
from penstock.web.layout import Text, ask, attempt, bar_html, rich_table
from penstock.web.viewer import Viewer
from penstock.wire import TenantAccountView, nested_tenants

_FIELDS = {"share": "Share", "quota": "Quota", "limit": "Limit", "group": "Group"}
_COLUMNS = ("Tenant", "Share", "Devices held", "Of", "Borrowed", "Lent", "Used in 24 h", "Deserved", "Fairness", "")
_FULL = 2.0
"""Fairness that fills the bar: twice what is deserved; half of it is exactly that."""


class AccountSection:
    """One card with a line for each tenant, members under their group."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        with ui.element("section").classes("ps-card ps-form").props('aria-label="Shares of tenants"'):
            ui.html("Shares of tenants", sanitize=False, tag="h2")
            self._table = Text()
            if viewer.may(Action.QUOTAS):
                self._form()

    def _form(self) -> None:
        with ui.element("div").classes("ps-row"):
            self._tenant = ui.input("Tenant or group").props("outlined dense")
            self._fields = {key: ui.input(label).props("outlined dense") for key, label in _FIELDS.items()}
        ui.button("Set the tenant", on_click=self._set).props("unelevated no-caps").classes("ps-primary")
        ui.label("An empty field stays as it is; none takes a quota, limit or group away.").classes("ps-soft")

    async def _set(self) -> None:
        tenant = (self._tenant.value or "").strip()
        fields = {key: field.value or "" for key, field in self._fields.items()}
        if await attempt(self._viewer.set_tenant, tenant, fields, done=f"{tenant} is set"):
            await self.refresh()

    async def refresh(self) -> None:
        rows = account_rows(await ask(self._viewer.tenant_accounts))
        self._table.show(rich_table(_COLUMNS, rows) if rows else "<p>There are no tenants yet.</p>")


def account_rows(tenants: list[TenantAccountView]) -> list[list[str]]:
    """Cells of HTML."""
    return [_row(tenant, depth) for tenant, depth in nested_tenants(tenants)]


def _row(tenant: TenantAccountView, depth: int) -> list[str]:
    name = html.escape(tenant.name)
    return [
        "&emsp;" * depth + (f"<b>{name}</b>" if tenant.members else name),
        f"{tenant.share:g}",
        str(tenant.held),
        _bounds(tenant),
        str(tenant.borrowed or "–"),
        str(tenant.lent or "–"),
        device_time(tenant.used_device_seconds),
        device_time(tenant.deserved_device_seconds),
        f"{tenant.fairness:.2f}",
        bar_html(min(tenant.fairness / _FULL, 1.0), f"fairness of {tenant.name}: {tenant.fairness:.2f}"),
    ]


def _bounds(tenant: TenantAccountView) -> str:
    words = [] if tenant.quota is None else [f"quota {tenant.quota}"]
    if tenant.limit is not None:
        words.append(f"at most {tenant.limit}")
    return ", ".join(words) or "–"
