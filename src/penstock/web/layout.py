"""What every page has: a way around, who is signed in, light and dark, and a pulse that keeps it up to date."""

import asyncio
import html
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from fastapi import Request
from nicegui import events, ui

from penstock.control import Action
from penstock.core import PenstockError
from penstock.web.charts import Options
from penstock.web.format import TONES
from penstock.web.prerender import prerendered
from penstock.web.refresh_pace import RefreshPace
from penstock.web.session import sign_in_url
from penstock.web.time_zone import viewer_zone, zone_label
from penstock.web.urls import ROOT, SCRIPT_URL, STYLE_URL
from penstock.web.viewer import Viewer
from penstock.wire import LossError, UnauthorizedError

_log = logging.getLogger(__name__)
T = TypeVar("T")
_TICK_S = 0.25
PACE = RefreshPace(_TICK_S)
_THEMES = {"auto": None, "light": False, "dark": True}

NAVIGATION = (
    ("Cluster", f"{ROOT}/", "M3 5h9v4H3zM8 11h13v4H8zM3 17h7v3H3z"),
    ("Jobs", f"{ROOT}/jobs", "M3 5h2v2H3zM7 5h14v2H7zM3 11h2v2H3zM7 11h14v2H7zM3 17h2v2H3zM7 17h14v2H7z"),
    ("Compare", f"{ROOT}/compare", "M4 4h2v14h14v2H4zM8 14l4-5l3 3l4-7l1.7 1l-5.4 9.3l-3.2-3.2l-2.5 3.1z"),
    ("Submit", f"{ROOT}/submit", "M11 4h2v7h7v2h-7v7h-2v-7H4v-2h7z"),
    ("Tenants", f"{ROOT}/tenants", "M5 8a3 3 0 1 1 6 0a3 3 0 1 1-6 0M2 19c0-8 12-8 12 0zM14 6h6v5h-6zM16 13h5v6h-5z"),
    (
        "Tokens",
        f"{ROOT}/tokens",
        "M7 8a4 4 0 1 0 4 5h3v3h3v-3h3v-2h-9a4 4 0 0 0-4-3zm0 3a1 1 0 1 1 0 2a1 1 0 1 1 0-2z",
    ),
    ("Nodes", f"{ROOT}/nodes", "M3 4h18v7H3zm3 2v3h3V6zM3 13h18v7H3zm3 2v3h3v-3z"),
    ("What-if", f"{ROOT}/what-if", "M9 3v4h11v2H9v4L3 8zM15 11v4H4v2h11v4l6-5z"),
)
"""Name, address and the outline of a picture: drawn here, a font of icons is a heavy thing to wait for."""
_NEEDS = {"Tokens": Action.TOKENS, "Submit": Action.SUBMIT}
"""Pages that are of no use to those who may not do what they are for."""
_MENU = "M3 6h18v2H3zM3 11h18v2H3zM3 16h18v2H3z"
_HALF_DARK = "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18v-2a7 7 0 0 0 0-14z"
_GATE = (
    '<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" aria-hidden="true">'
    '<path d="M4 21V5h16v16M4 9h16M9 9v6h6V9M2 21h20"/><path d="M9 18.5c1 .8 2 .8 3 0s2-.8 3 0"/></svg>'
)


@contextmanager
def framed(viewer: Viewer, request: Request, title: str) -> Iterator[None]:
    """The frame of a page; what is made inside is its content."""
    ui.add_head_html(
        f'<link rel="stylesheet" href="{STYLE_URL}"><script src="{SCRIPT_URL}"></script>'
        f'<script nonce="{request.state.nonce}">if (penstock.tellZone()) location.reload()</script>'
    )
    ui.context.client.content.classes("ps-content")
    dark = _THEMES.get(request.cookies.get("penstock_theme", "auto"))
    theme = ui.dark_mode(dark)
    with ui.header().classes("ps-top"):
        ui.html('<a class="ps-skip" href="#content">Skip to the content</a>', sanitize=False)
        menu = (
            ui.button(icon=_MENU, color=None)
            .props('flat round dense aria-label="Navigation"')
            .classes("ps-quiet lt-md")
        )
        ui.html(html.escape(title), sanitize=False, tag="h1")
        _who(viewer, theme)
    side = ui.left_drawer(value=False, elevated=False).props("width=212 breakpoint=1023 show-if-above")
    around = _navigation(viewer, request)
    with side.classes("ps-side"):
        ui.html(around, sanitize=False).classes("ps-around")
    menu.on_click(side.toggle)
    with ui.element("div").props('role="status" aria-live="polite"').classes("ps-status"):
        ui.html("", sanitize=False, tag="span").props('id="content" tabindex="-1"')
        look = _health(viewer)
    yield
    ui.timer(2.0, look)  # not before: a page is sent as soon as a timer waits for its connection, whatever it lacks
    ui.add_body_html(prerendered(ui.context.client.content, title, around, dark, request.state.nonce))


def _navigation(viewer: Viewer, request: Request) -> str:
    here = request.url.path.rstrip("/") or "/"
    offered = [entry for entry in NAVIGATION if (need := _NEEDS.get(entry[0])) is None or viewer.may(need)]
    items = "".join(_item(name, url, icon, here) for name, url, icon in offered)
    return (
        f'<a class="ps-brand" href="{ROOT}/">{_GATE}Penstock</a><nav class="ps-nav" aria-label="Main">{items}</nav>'
        f'<div class="ps-foot">Policy <b>{html.escape(viewer.policy())}</b>. '
        f"Times: {html.escape(zone_label(viewer_zone()))}.</div>"
    )


def _item(name: str, url: str, icon: str, here: str) -> str:
    current = here == url.rstrip("/") or (url != f"{ROOT}/" and here.startswith(url))
    mark = ' aria-current="page"' if current else ""
    return f'<a href="{url}"{mark}><svg viewBox="0 0 24 24" aria-hidden="true"><path d="{icon}"/></svg>{name}</a>'


def _who(viewer: Viewer, theme: ui.dark_mode) -> None:
    holder = viewer.holder
    with ui.element("div").classes("ps-who"):
        who = f"{holder.name} · {holder.role} · {holder.tenant}"
        ui.label(who).classes("ps-who-name ps-wide").props(f'title="{html.escape(who)}"')
        look = (
            ui.button(icon=_HALF_DARK, color=None)
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


def _health(viewer: Viewer) -> Callable[[], None]:
    """A word when the platform itself is in trouble; what it gives looks again."""
    note = ui.label().classes("ps-trouble")
    note.set_visibility(False)

    def look() -> None:
        trouble, warnings = viewer.trouble(), viewer.warnings()
        words = [f"The platform is in trouble and tries again: {trouble}"] if trouble else []
        note.set_text(" ".join([*words, *warnings]))
        note.set_visibility(bool(words or warnings))

    look()
    return look


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


async def attempt_with_loss(function: Callable[..., Any], *arguments: Any, done: str) -> None:
    """Do something that may lose work; if it would, say how much and do it only ``anyway``."""
    try:
        await ask(function, *arguments)
        ui.notify(done, type="positive")
    except LossError as error:
        if await confirmed("Pause it and lose work?", str(error.given), yes="Pause it anyway"):
            await attempt(function, *arguments, done=done, anyway=True)
    except PenstockError as error:
        ui.notify(str(error), type="negative", multi_line=True, timeout=8000)


async def confirmed(question: str, consequence: str, *, yes: str) -> bool:
    """Ask before something that cannot be taken back; closing the question keeps everything as it is."""
    with ui.dialog() as dialog, ui.element("div").classes("ps-card") as card:
        card.props(f'role="alertdialog" aria-label="{html.escape(question)}"')
        ui.label(question).classes("ps-verdict")
        ui.label(consequence).classes("ps-soft")
        with ui.element("div").classes("ps-head").style("margin-top: 12px"):
            for label, answer, tone in ((yes, True, "ps-danger"), ("Keep it", False, "ps-quiet")):
                button = ui.button(label, on_click=lambda _, given=answer: dialog.submit(given), color=None)
                button.props("flat no-caps").classes(tone)
    return bool(await dialog)


def go_to(url: str) -> None:
    """Another page, by its whole path."""
    ui.run_javascript(f"location.assign({json.dumps(url)})")


def live(viewer: Viewer, refresh: Callable[[], Awaitable[None]], *, idle_s: float = 1.0) -> None:
    """Call ``refresh`` soon after something happened, and every ``idle_s`` seconds while nothing does.

    How soon depends on how many pages are open (:mod:`penstock.web.refresh_pace`).

    The timer belongs to the page and ends with it. A token that was revoked meanwhile ends at the sign-in form.
    """
    seen, looked_at = viewer.position(), time.monotonic()
    PACE.opened()
    ui.context.client.on_delete(PACE.closed)

    async def tick() -> None:
        nonlocal seen, looked_at
        latest, since = viewer.position(), time.monotonic() - looked_at
        pulse.interval = PACE.tick_s
        if since < PACE.pause_s or (latest == seen and since < idle_s):
            return
        seen, looked_at = latest, time.monotonic()
        try:
            with PACE.refreshing():
                await refresh()
        except UnauthorizedError:
            go_to(sign_in_url(f"{ROOT}/"))
        except PenstockError as error:
            _log.info("a page could not be refreshed: %s", error)

    pulse = ui.timer(_TICK_S, tick, immediate=False)


def badge(state: str) -> str:
    """A state as a word with a colour, as HTML."""
    return f'<span class="ps-badge ps-{TONES.get(state, "mute")}">{html.escape(state)}</span>'


def empty(title: str, advice: str) -> None:
    """Nothing is there: what to do about it. ``advice`` is HTML."""
    ui.html(f'<div class="ps-empty"><h2>{html.escape(title)}</h2><p>{advice}</p></div>', sanitize=False)


def tiles_of(figures: Iterable[tuple[str, str, str]]) -> str:
    """Figures side by side, each with its name above and a note below; notes may be HTML."""
    cells = (
        f'<dl class="ps-card ps-tile"><dt>{name}</dt><dd>{html.escape(value)}</dd><dd class="ps-note">{note}</dd></dl>'
        for name, value, note in figures
    )
    return f'<div class="ps-tiles">{"".join(cells)}</div>'


class Text:
    """A piece of HTML that is only sent again when it has changed."""

    def __init__(self, content: str = "", classes: str = "") -> None:
        self.element = ui.html(content, sanitize=False).classes(classes)

    def show(self, content: str) -> None:
        if content != self.element.content:
            self.element.set_content(content)


class _FigureCard:
    """A figure with a title, and its numbers as a table for those who do not see it."""

    def __init__(self, title: str, legend: str = "") -> None:
        with ui.element("figure").classes("ps-card") as self.card:
            with ui.element("div").classes("ps-head") as self.head:
                ui.html(html.escape(title), sanitize=False, tag="h2")
                if legend:
                    ui.html(legend, sanitize=False).classes("ps-legend")
            self._place = ui.element("div").classes("w-full")
            with ui.element("details").classes("ps-table") as details:
                ui.html("As a table", sanitize=False, tag="summary")
                self._table = Text()
        self._numbers: tuple[Sequence[str], Sequence[Sequence[str]], str] = (), (), ""
        self._open = False
        details.on("toggle", self._toggled, js_handler="event => emit(event.target.open)")

    def _tell(self, columns: Sequence[str], rows: Sequence[Sequence[str]], words: str) -> None:
        """The numbers go to the browser once somebody has opened the table."""
        self._numbers = columns, rows, words
        if self._open:
            self._table.show(table_html(columns, rows, words))

    def _toggled(self, event: events.GenericEventArguments) -> None:
        self._open = bool(event.args)
        self._tell(*self._numbers)


class Figure(_FigureCard):
    """A chart that the browser draws, and what it shows in words."""

    def __init__(self, title: str, height: int) -> None:
        super().__init__(title)
        with self._place:
            self._chart = ui.echart({"series": []}, renderer="svg").style(f"height: {height}px")
            self._chart.props(f'role="img" aria-label="{html.escape(title)}"')

    def show(self, options: Options, words: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        if options != self._chart.options:
            self._chart.options.clear()
            self._chart.options.update(options)
            self._chart.update()
        if self._chart.props.get("aria-label") != words:
            self._chart.props["aria-label"] = words
        self._tell(columns, rows, words)

    def height(self, pixels: int) -> None:
        self._chart.style(f"height: {pixels}px")


class Drawing(_FigureCard):
    """A figure that comes drawn, as SVG, and what it shows in words. It needs nothing loaded to be seen."""

    def __init__(self, title: str, legend: str = "") -> None:
        super().__init__(title, legend)
        with self._place:
            self._drawn = Text(classes="w-full")

    def show(self, drawn: str, words: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self._drawn.show(f'<div role="img" aria-label="{html.escape(words)}">{drawn}</div>')
        self._tell(columns, rows, words)


def bar_html(share: float, label: str) -> str:
    """How much of something is done, as a bar."""
    return (
        '<div class="ps-bar" role="progressbar" aria-valuemin="0" aria-valuemax="100" '
        f'aria-valuenow="{100 * share:.0f}" aria-label="{html.escape(label)}">'
        f'<span style="width:{100 * share:.1f}%"></span></div>'
    )


def table_html(columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A plain table; cells are escaped."""
    escaped = [[html.escape(cell) for cell in row] for row in rows]
    return rich_table([html.escape(column) for column in columns], escaped, caption)


def rich_table(columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A table whose cells are HTML."""
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    caption_html = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    table = f"<table class='ps-data'>{caption_html}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div class='ps-scroll'>{table}</div>"
