"""What a page looks like before any script has run: the same content, written out as plain HTML.

The scripts behind the pages are large, and a person who opens one wants to read it, not to wait for them. What needs no
script (text, tables, drawings, links) is shown at once, and makes way unnoticed when the living page is there.
"""

import html
from collections.abc import Iterable

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

from penstock.web.cluster_svg import without_tips

_PLAIN = ("div", "section", "figure", "details")


def prerendered(content: Element, title: str, side: str, dark: bool | None, nonce: str) -> str:
    """The whole page; ``dark`` is what the user chose, ``None`` what the system says; ``nonce`` lets its script run."""
    choice = 'matchMedia("(prefers-color-scheme: dark)").matches' if dark is None else str(dark).lower()
    return (
        f'<script nonce="{nonce}">document.body.classList.toggle("body--dark", {choice}); '
        "penstock.untilAlive();</script>"
        f'<div id="ps-first"><header class="q-header ps-top"><h1>{html.escape(title)}</h1></header>'
        f'<aside class="q-drawer__content ps-side">{side}</aside>'
        f'<main class="nicegui-content ps-content">{_all(content.default_slot.children)}</main></div>'
    )


def _all(elements: Iterable[Element]) -> str:
    return "".join(_still(element) for element in elements)


def _still(element: Element) -> str:
    """An element and what is in it; nothing of one that needs a script to be of use, or is hidden."""
    classes = list(element.classes)
    if "hidden" in classes:
        return ""
    if isinstance(element, ui.html):
        return _tag(str(element.props["tag"]), classes, element, without_tips(element.content))
    if isinstance(element, TextElement):
        return _tag("div", classes, element, html.escape(element.text))
    return _tag(element.tag, classes, element, _all(element.default_slot.children)) if element.tag in _PLAIN else ""


def _tag(name: str, classes: Iterable[str], element: Element, inside: str) -> str:
    values = {key: value for key, value in element.props.items() if key == "role" or key.startswith("aria-")}
    values |= {"class": " ".join(classes), "style": ";".join(f"{key}:{value}" for key, value in element.style.items())}
    attributes = "".join(f' {key}="{html.escape(str(value))}"' for key, value in values.items() if value)
    return f"<{name}{attributes}>{inside}</{name}>"
