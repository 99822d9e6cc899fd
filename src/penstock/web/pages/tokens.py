"""Tokens: who may come in as what, making one and making one worthless. For admins, and within theirs tenant admins."""

import html
from collections.abc import Sequence
from functools import partial

from fastapi import Request
from nicegui import ui

from penstock.control import Action, Role
from penstock.web.format import from_now, short_clock
from penstock.web.layout import Text, ask, attempt, confirmed, empty
from penstock.web.viewer import Viewer
from penstock.wire import TokenView

_COLUMNS = ("Name", "Role", "Tenant", "May", "Made", "Used last", "Ends", "")


async def build(viewer: Viewer, _: Request) -> None:
    if not viewer.may(Action.TOKENS):
        with ui.element("div").classes("ps-card"):
            empty("For admins", "Tokens are made and revoked by those who have the role admin or tenant-admin.")
        return
    listed = TokenList(viewer)
    TokenForm(viewer, listed)
    await listed.refresh()


class TokenList:
    """Every token that is valid, each with a button that ends it."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        with ui.element("section").classes("ps-card").props('aria-label="Tokens"'):
            ui.html("Tokens", sanitize=False, tag="h2").style("margin-bottom: 8px")
            self._rows = ui.element("div").classes("ps-tokens").props('role="table" aria-label="Tokens"')

    async def refresh(self) -> None:
        tokens = await ask(self._viewer.tokens)
        self._rows.clear()
        with self._rows:
            ui.html(_cells(_COLUMNS, "columnheader"), sanitize=False).classes("ps-token").props('role="row"')
            for token in tokens:
                self._row(token)

    def _row(self, token: TokenView) -> None:
        with ui.element("div").classes("ps-token").props('role="row"'):
            ui.html(_cells(row_of(token, self._viewer.now()), "cell"), sanitize=False).classes("ps-cells")
            with ui.element("span").props('role="cell"'):
                own = token.id == self._viewer.holder.id
                button = ui.button("Revoke", on_click=lambda: self._ask_revoke(token), color=None)
                button.props(f'flat dense no-caps aria-label="Revoke {html.escape(token.name)}"').classes("ps-danger")
                button.set_visibility(not own)

    async def _ask_revoke(self, token: TokenView) -> None:
        question = f"Make the token {token.name} worthless?"
        if await confirmed(question, "Whoever uses it is signed out at once. Jobs go on.", yes="Revoke it"):
            await attempt(self._viewer.revoke_token, token.id, done=f"{token.name} is revoked")
            await self.refresh()


class TokenForm:
    """A new token; its secret is shown once, here."""

    def __init__(self, viewer: Viewer, listed: TokenList) -> None:
        self._viewer, self._listed = viewer, listed
        roles = [role.value for role in Role if role is not Role.ADMIN or viewer.is_admin]
        with ui.element("section").classes("ps-card ps-form").props('aria-label="New token"'):
            ui.html("New token", sanitize=False, tag="h2")
            with ui.element("div").classes("ps-row"):
                self._name = ui.input("Whose it is, or what for").props("outlined dense")
                self._tenant = ui.input("Tenant", value=viewer.holder.tenant).props("outlined dense")
                self._role = ui.select(roles, label="Role", value="user").props("outlined dense options-dense")
                self._ends = ui.input("Ends after, such as 30d; empty: never").props("outlined dense")
            ui.button("Make a token", on_click=self._make).props("unelevated no-caps").classes("ps-primary")
            self._secret = Text(classes="w-full")

    async def _make(self) -> None:
        made: list[TokenView] = []
        name, tenant, ends = ((field.value or "").strip() for field in (self._name, self._tenant, self._ends))
        make = partial(self._viewer.make_token, name=name, tenant=tenant, role=str(self._role.value))
        if await attempt(lambda: made.append(make(expires=ends or None))):
            self._secret.show(secret_html(made[0]))
            await self._listed.refresh()


def secret_html(token: TokenView) -> str:
    """The secret, and how to use it."""
    return (
        f"<p role='status'>The token of {html.escape(token.name)}. It is shown this once: keep it in a safe place.</p>"
        f"<pre class='ps-file' aria-label='Secret'>{html.escape(token.secret or '')}</pre>"
    )


def row_of(token: TokenView, now: float) -> list[str]:
    return [
        token.name, token.role, token.tenant, ", ".join(token.scope) or "all of its role",
        short_clock(token.created_at), from_now(token.last_used_at, now),
        short_clock(token.expires_at) if token.expires_at else "never",
    ]  # fmt: skip


def _cells(texts: Sequence[str], role: str) -> str:
    pairs = zip(_COLUMNS, texts, strict=False)
    return "".join(f'<span role="{role}" data-label="{label}">{html.escape(text)}</span>' for label, text in pairs)
