"""What every page has: a way around, who is signed in, light and dark, and a pulse that keeps it up to date."""

import asyncio
import html
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from fastapi import Request
from nicegui import ui

from penstock.control.problems import UnauthorizedError
from penstock.core import PenstockError
from penstock.web.charts import Options
from penstock.web.data import Window
from penstock.web.place import ROOT, STATIC, STYLE_URL
from penstock.web.session import sign_in_url
from penstock.web.words import TONES

_log = logging.getLogger(__name__)
T = TypeVar("T")
_TICK_S = 0.35
_THEMES = {"auto": None, "light": False, "dark": True}

NAVIGATION = (
    ("Cluster", f"{ROOT}/", "view_timeline"),
    ("Jobs", f"{ROOT}/jobs", "list"),
    ("Submit", f"{ROOT}/submit", "add_circle_outline"),
    ("Tenants", f"{ROOT}/tenants", "groups"),
    ("Nodes", f"{ROOT}/nodes", "dns"),
    ("What-if", f"{ROOT}/what-if", "compare_arrows"),
)
_GATE = (
    '<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" aria-hidden="true">'
    '<path d="M4 21V5h16v16M4 9h16M9 9v6h6V9M2 21h20"/><path d="M9 18.5c1 .8 2 .8 3 0s2-.8 3 0"/></svg>'
)


@contextmanager
def framed(window: Window, request: Request, title: str) -> Iterator[None]:
    """The frame of a page; what is made inside is its content."""
    ui.add_head_html(f'<link rel="stylesheet" href="{STYLE_URL}"><script src="{STATIC}/charts.js"></script>')
    ui.context.client.content.classes("ps-content")
    theme = ui.dark_mode(_THEMES.get(request.cookies.get("penstock_theme", "auto")))
    with ui.header().classes("ps-top"):
        ui.html('<a class="ps-skip" href="#content">Skip to the content</a>', sanitize=False)
        menu = (
            ui.button(icon="menu", color=None)
            .props('flat round dense aria-label="Navigation"')
            .classes("ps-quiet lt-md")
        )
        ui.html(html.escape(title), sanitize=False, tag="h1")
        _who(window, theme)
    side = ui.left_drawer(value=False, elevated=False).props("width=212 breakpoint=1023 show-if-above")
    with side.classes("ps-side"):
        _navigation(window, request)
    menu.on_click(side.toggle)
    with ui.element("div").props('role="status" aria-live="polite"').classes("ps-status"):
        ui.html("", sanitize=False, tag="span").props('id="content" tabindex="-1"')
        _health(window)
    yield


def _navigation(window: Window, request: Request) -> None:
    here = request.url.path.rstrip("/") or "/"
    ui.html(f'<a class="ps-brand" href="{ROOT}/">{_GATE}Penstock</a>', sanitize=False).classes("w-full")
    items = "".join(_item(name, url, icon, here) for name, url, icon in NAVIGATION)
    ui.html(f'<nav class="ps-nav" aria-label="Main">{items}</nav>', sanitize=False).classes("w-full")
    ui.html(f"Policy <b>{html.escape(window.policy())}</b>. Times are UTC.", sanitize=False).classes("ps-foot")


def _item(name: str, url: str, icon: str, here: str) -> str:
    current = here == url.rstrip("/") or (url != f"{ROOT}/" and here.startswith(url))
    mark = ' aria-current="page"' if current else ""
    return f'<a href="{url}"{mark}><i class="q-icon material-icons" aria-hidden="true">{icon}</i>{name}</a>'


def _who(window: Window, theme: ui.dark_mode) -> None:
    holder = window.holder
    with ui.element("div").classes("ps-who"):
        who = f"{holder.name} · {holder.role} · {holder.tenant}"
        ui.label(who).classes("ps-who-name ps-wide").props(f'title="{html.escape(who)}"')
        look = (
            ui.button(icon="contrast", color=None)
            .props('flat round dense aria-label="Light or dark"')
            .classes("ps-quiet")
        )
        with look, ui.menu():
            for name, label in (("auto", "As the system"), ("light", "Light"), ("dark", "Dark")):
                ui.menu_item(label, on_click=partial(_choose, theme, name))
        ui.html(
            f'<form method="post" action="{ROOT}/sign-out"><button class="q-btn q-btn--flat q-btn--dense ps-quiet" '
            'style="background:none;border:0;font:inherit;font-weight:600;cursor:pointer">Sign out</button></form>',
            sanitize=False,
        )  # fmt: skip


def _choose(theme: ui.dark_mode, name: str) -> None:
    theme.set_value(_THEMES[name])
    ui.run_javascript(f"penstock.theme({name!r})")


def _health(window: Window) -> None:
    """A word when the platform itself is in trouble."""
    note = ui.label().classes("ps-trouble")
    note.set_visibility(False)

    def look() -> None:
        trouble = window.trouble()
        note.set_text(f"The platform is in trouble and tries again: {trouble}" if trouble else "")
        note.set_visibility(bool(trouble))

    look()
    ui.timer(2.0, look)


async def ask(function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Something that blocks, in a thread."""
    return await asyncio.to_thread(function, *arguments, **options)


async def attempt(function: Callable[..., Any], *arguments: Any, done: str = "", **options: Any) -> bool:
    """Do something a person asked for, and say how it went."""
    try:
        await ask(function, *arguments, **options)
    except PenstockError as error:
        ui.notify(str(error), type="negative", multi_line=True, timeout=8000)
        return False
    if done:
        ui.notify(done, type="positive")
    return True


def go_to(url: str) -> None:
    """Another page, by its whole path."""
    ui.run_javascript(f"location.assign({json.dumps(url)})")


def live(window: Window, refresh: Callable[[], Awaitable[None]], *, idle_s: float = 1.0) -> None:
    """Call ``refresh`` soon after something happened, and every ``idle_s`` seconds while nothing does.

    What is listed follows the log a moment later, so a change is looked at twice. The timer belongs to the page and
    ends with it. A token that was revoked meanwhile ends at the sign-in form.
    """
    settled = latest = window.seq()
    looked_at = time.monotonic()

    async def tick() -> None:
        nonlocal settled, latest, looked_at
        before, latest = latest, window.seq()
        if settled == before == latest and time.monotonic() - looked_at < idle_s:
            return
        settled, looked_at = before, time.monotonic()
        try:
            await refresh()
        except UnauthorizedError:
            go_to(sign_in_url(f"{ROOT}/"))
        except PenstockError as error:
            _log.info("a page could not be refreshed: %s", error)

    ui.timer(_TICK_S, tick, immediate=False)


def badge(state: str) -> str:
    """A state as a word with a colour, as HTML."""
    return f'<span class="ps-badge ps-{TONES.get(state, "mute")}">{html.escape(state)}</span>'


def empty(title: str, advice: str) -> None:
    """Nothing is there: what to do about it. ``advice`` is HTML."""
    ui.html(f'<div class="ps-empty"><h2>{html.escape(title)}</h2><p>{advice}</p></div>', sanitize=False)


class Text:
    """A piece of HTML that is only sent again when it has changed."""

    def __init__(self, content: str = "", classes: str = "") -> None:
        self._element = ui.html(content, sanitize=False).classes(classes)

    def show(self, content: str) -> None:
        if content != self._element.content:
            self._element.set_content(content)


class Figure:
    """A chart with a title, what it shows in words, and its numbers as a table for those who do not see it."""

    def __init__(self, title: str, height: int, *, legend: str = "") -> None:
        with ui.element("figure").classes("ps-card") as self.card:
            with ui.element("div").classes("ps-head") as self.head:
                ui.html(html.escape(title), sanitize=False, tag="h2")
                if legend:
                    ui.html(legend, sanitize=False).classes("ps-legend")
            self._chart = ui.echart({"series": []}, renderer="svg").style(f"height: {height}px")
            self._chart.props(f'role="img" aria-label="{html.escape(title)}"')
            with ui.element("details").classes("ps-table"):
                ui.html("As a table", sanitize=False, tag="summary")
                self._table = Text()

    def show(self, options: Options, words: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        if options != self._chart.options:
            self._chart.options.clear()
            self._chart.options.update(options)
            self._chart.update()
        if self._chart.props.get("aria-label") != words:
            self._chart.props["aria-label"] = words
        self._table.show(table_html(columns, rows, words))

    def on_click(self, handler: Callable[[Any], None]) -> None:
        self._chart.on_point_click(handler)

    def height(self, pixels: int) -> None:
        self._chart.style(f"height: {pixels}px")


def table_html(columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A plain table; cells are escaped."""
    head = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    told = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    table = f"<table class='ps-data'>{told}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div class='ps-scroll'>{table}</div>"
