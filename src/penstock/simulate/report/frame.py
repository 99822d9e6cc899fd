"""The outside of a page: one file with its style, its script and its data, and a policy that forbids it the network."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.metadata import version
from importlib.resources import files
from typing import Any

_FORBID = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_MARK = (
    "<svg viewBox='0 0 24 24' aria-hidden='true'><rect x='3' y='2' width='3' height='20' rx='1' fill='var(--faint)'/>"
    "<rect x='18' y='2' width='3' height='20' rx='1' fill='var(--faint)'/><rect x='7' y='3' width='10' height='9'"
    " rx='1' fill='var(--accent)'/><path d='M7 16q2.5-2 5 0t5 0M7 20q2.5-2 5 0t5 0' stroke='var(--accent)'"
    " stroke-width='1.6' fill='none' stroke-linecap='round'/></svg>"
)


@cache
def asset(name: str) -> str:
    """A file that is inlined into pages."""
    return files("penstock.simulate.report").joinpath("assets", name).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Everything between the first and the last byte of a report."""

    title: str
    facts: Sequence[tuple[str, str]]
    body: str
    data: Any = None
    scripts: Sequence[str] = ()
    note: str = ""

    def html(self) -> str:
        return "".join(
            (
                "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>",
                f"<meta http-equiv='Content-Security-Policy' content=\"{_FORBID}\">",
                "<meta name='viewport' content='width=device-width, initial-scale=1'>",
                f"<title>{escape(self.title)}</title><style>{asset('page.css')}</style></head><body>",
                "<a class='skip' href='#content'>Skip to the content</a><header class='top'><div class='brand'>",
                f"{_MARK}<span>Penstock</span><button id='theme' type='button'>Light or dark</button></div>",
                f"<h1>{escape(self.title)}</h1><ul class='facts'>{''.join(_fact(*fact) for fact in self.facts)}</ul>",
                f"</header><main id='content'>{self.body}</main>",
                f"<footer>{self.note} Made by Penstock {escape(version('penstock'))}; it loads nothing.</footer>",
                self._scripts(),
                "</body></html>\n",
            )
        )

    def _scripts(self) -> str:
        """The data cannot end its own element: every "<" in it is written as an escape."""
        if not self.scripts:
            return ""
        data = json.dumps(self.data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
        code = "\n".join(asset(name).replace('"use strict";', "", 1) for name in self.scripts)
        return f'<script id="data" type="application/json">{data}</script><script>"use strict";\n{code}</script>'


def _fact(name: str, value: str) -> str:
    return f"<li>{escape(name)} <b>{escape(value)}</b></li>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A table of plain text, its first column the name of the row; for cells with markup use :class:`Markup`."""
    cells = "".join(f"<th scope='col'>{escape(name)}</th>" for name in head)
    body = "".join(_row(row) for row in rows)
    said = f"<caption class='hidden'>{escape(caption)}</caption>" if caption else ""
    return f"<div class='wide'><table>{said}<thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>"


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


class Best(str):
    """A figure that is the best of its column."""

    __slots__ = ()


def _row(cells: Sequence[str]) -> str:
    if len(cells) == 1:
        return f"<tr class='split'><th colspan='99'>{_cell(cells[0])}</th></tr>"
    first, *rest = cells
    return f"<tr><th scope='row'>{_cell(first)}</th>{''.join(_data(cell) for cell in rest)}</tr>"


def _data(cell: str) -> str:
    return f"<td class='best'>{escape(cell)}</td>" if isinstance(cell, Best) else f"<td>{_cell(cell)}</td>"


def _cell(cell: str) -> str:
    return str(cell) if isinstance(cell, Markup) else escape(cell)


def section(title: str, why: str, inside: str, anchor: str = "") -> str:
    named = f" id='{anchor}'" if anchor else ""
    told = f"<p class='why'>{escape(why)}</p>" if why else ""
    return f"<section{named}><h2>{escape(title)}</h2>{told}{inside}</section>"


def chart(name: str, as_table: str) -> str:
    """A place the script draws into, and the same as a table."""
    return f"<figure><div class='chart' id='{name}'></div></figure>{in_words(as_table)}"


def in_words(as_table: str) -> str:
    return f"<details><summary>The same as a table</summary>{as_table}</details>"
