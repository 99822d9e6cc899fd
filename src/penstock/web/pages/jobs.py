"""The list of jobs: search, filters, live progress. The server sends one page at a time, however many there are."""

import textwrap
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request
from nicegui import events, ui

from penstock.control import BROKEN_PROMISE, Search
from penstock.web.format import PROMISE_TONES, TONES, from_now, promise, short_clock
from penstock.web.layout import ask, empty, go_to, live
from penstock.web.pages.array_list import ArrayList
from penstock.web.pages.compare import MOST_JOBS
from penstock.web.urls import ROOT, compare_url
from penstock.web.view_models import JobTableRow
from penstock.web.viewer import Viewer
from penstock.wire import OVER, JobPhase, JobView, promise_words

_LONGEST_TEXT = 100
_LONGEST_REASON = 80
_CHOOSE = f"Select 2 to {MOST_JOBS} jobs to compare them"
_STATES = tuple(phase.value for phase in JobPhase)


def _column(name: str, label: str, align: str = "left", **more: Any) -> dict[str, Any]:
    """On a phone a cell says itself what it is: its class names it."""
    return {"name": name, "label": label, "field": name, "align": align, "classes": f"ps-c-{name}"} | more


_COLUMNS: list[dict[str, Any]] = [
    _column("name", "Job", sortable=True),
    _column("state", "State", sortable=True),
    _column("share", "Progress"),
    _column("devices", "Devices", "right"),
    _column("promise", "Promise", classes="ps-c-promise ps-wrap"),
    _column("deadline", "Deadline"),
    _column("expected", "Expected end"),
    _column("number", "Submitted", field="submitted", sortable=True),
]

_NAME = f"""<q-td :props="props"><a :href="'{ROOT}/jobs/' + props.row.id">{{{{ props.row.name }}}}</a>
<div class="ps-soft ps-mono" style="font-size:.8rem">{{{{ props.row.id }}}} · {{{{ props.row.tenant }}}}</div></q-td>"""
_SELECT = """<q-checkbox dense v-model="props.selected" :aria-label="{label}" />"""
_STATE = """<q-td :props="props"><span :class="'ps-badge ps-' + props.row.tone">{{ props.row.state }}</span></q-td>"""
_PROMISE = """<q-td :props="props"><span :class="props.row.promised && 'ps-badge ps-' + props.row.promised">
{{ props.row.promise }}</span></q-td>"""
_SHARE = """<q-td :props="props"><span v-if="props.row.share === null">–</span>
<div v-else class="ps-progress"><div class="ps-bar" role="progressbar" aria-valuemin="0"
 aria-valuemax="100" :aria-valuenow="props.row.share" :aria-label="'Progress of ' + props.row.name">
<span :style="{width: props.row.share + '%'}"></span></div>
<span style="width:3.2em">{{ props.row.share }} %</span></div></q-td>"""


async def build(viewer: Viewer, request: Request) -> None:
    query = JobQuery(tenant=viewer.holder.sees)
    if (state := request.query_params.get("state")) in _STATES:
        query.states = [state]
    query.text = request.query_params.get("text", "")[:_LONGEST_TEXT]
    arrays = ArrayList(viewer)
    with ui.element("div").classes("ps-card"):
        filters = Filters(query, await ask(viewer.all_tenants) if viewer.is_admin else None)
        page = JobTable(viewer, query)
    filters.on_change(page.refresh)

    async def refresh() -> None:
        await arrays.refresh()
        await page.refresh()

    await refresh()
    live(viewer, refresh)


@dataclass(slots=True)
class JobQuery:
    """What somebody looks for, and which part of it is shown."""

    tenant: str | None
    text: str = ""
    states: list[str] = field(default_factory=list)
    page: int = 1
    size: int = 25
    order: str = "number"
    descending: bool = True

    def search(self) -> Search:
        return Search(
            text=self.text, states=self.states, tenant=self.tenant, order=self.order, descending=self.descending,
            offset=(self.page - 1) * self.size, limit=self.size,
        )  # fmt: skip

    def pagination(self, total: int) -> dict[str, Any]:
        return {
            "page": self.page, "rowsPerPage": self.size, "rowsNumber": total, "sortBy": self.order,
            "descending": self.descending,
        }  # fmt: skip


class Filters:
    """The controls above the table; admins choose among all tenants."""

    def __init__(self, query: JobQuery, tenants: list[str] | None) -> None:
        self._query = query
        with ui.element("div").classes("ps-head"):
            self._text = ui.input("Search by name or id", value=query.text)
            self._text.props("outlined dense clearable debounce=250 type=search")
            self._text.style("flex: 1 1 220px")
            self._states = ui.select(list(_STATES), label="State", multiple=True, value=query.states, clearable=True)
            self._states.props("outlined dense use-chips").style("flex: 1 1 200px")
            self._tenants = None if tenants is None else ui.select(tenants, label="Tenant", clearable=True)
            if self._tenants is not None:
                self._tenants.props("outlined dense").style("flex: 0 1 180px")

    def on_change(self, refresh: Callable[[], Awaitable[None]]) -> None:
        async def filtered() -> None:
            self._read()
            await refresh()

        for control in (self._text, self._states, self._tenants):
            if control is not None:
                control.on_value_change(filtered)

    def _read(self) -> None:
        self._query.text, self._query.page = (self._text.value or "").strip(), 1
        self._query.states = list(self._states.value or ())
        if self._tenants is not None:
            self._query.tenant = self._tenants.value


class JobTable:
    """One page of the jobs that were asked for; turning it asks the server."""

    def __init__(self, viewer: Viewer, query: JobQuery) -> None:
        self._viewer, self._query = viewer, query
        self._compare = ui.button(_CHOOSE, on_click=self._compare_selected, color=None)
        self._compare.props("flat dense no-caps").classes("ps-quiet ps-wide").set_enabled(False)
        self._table = ui.table(
            columns=_COLUMNS, rows=[], row_key="id", pagination=query.pagination(1), selection="multiple",
            on_select=self._count_selected,
        )  # fmt: skip
        self._table.classes("ps-jobs w-full")
        self._table.props('flat :rows-per-page-options="[10, 25, 50, 100]" aria-label="Jobs"')
        for name, slot in (("name", _NAME), ("state", _STATE), ("share", _SHARE), ("promise", _PROMISE)):
            self._table.add_slot(f"body-cell-{name}", slot)
        self._table.add_slot("header-selection", _SELECT.format(label="'Select all on this page'"))
        self._table.add_slot("body-selection", _SELECT.format(label="'Select ' + props.row.name"))
        with self._table.add_slot("no-data"):
            empty("No jobs", f'<a href="{ROOT}/submit">Submit one</a>, or loosen the filters above.')
        self._table.on("request", self._turn)

    async def refresh(self) -> None:
        lines, total = await ask(self._viewer.jobs, self._query.search())
        now, shown = self._viewer.now(), self._query.pagination(total)
        rows = [row_of(line, now) for line in lines]
        if rows != self._table.rows or shown != self._table.pagination:
            self._table.pagination = shown
            self._table.rows = rows
            self._table.update()

    def _selected(self) -> list[str]:
        return [str(row["id"]) for row in self._table.selected]

    def _count_selected(self) -> None:
        count = len(self._selected())
        self._compare.set_text(f"Compare {count} jobs" if count > 1 else _CHOOSE)
        self._compare.set_enabled(1 < count <= MOST_JOBS)

    def _compare_selected(self) -> None:
        go_to(compare_url(*self._selected()))

    async def _turn(self, event: events.GenericEventArguments) -> None:
        asked, query = event.args["pagination"], self._query
        query.page, query.size = asked["page"], asked["rowsPerPage"] or 100
        query.order, query.descending = asked["sortBy"] or "number", bool(asked["descending"])
        await self.refresh()


def row_of(line: JobTableRow, now: float) -> dict[str, Any]:
    """One row as the table wants it."""
    job = line.view
    return {
        "id": job.id, "name": job.name, "state": job.state, "tone": TONES.get(job.state, "mute"),
        "share": None if job.state in OVER and job.state != "finished" else round(100 * line.share),
        "devices": len(job.devices) or "–", "tenant": job.tenant,
        "promise": _promise(job), "promised": PROMISE_TONES.get(job.promise, ""),
        "deadline": short_clock(line.deadline), "expected": end_of(job, now),
        "submitted": from_now(job.submitted_at, now),
    }  # fmt: skip


def _promise(job: JobView) -> str:
    """What has become of its promise, else what it was told; of one that is over why, where there is a reason."""
    ended = job.state in OVER and job.reason
    if settled := promise_words(job):
        cause = f": {job.reason.rpartition(BROKEN_PROMISE)[2]}" if ended and job.promise == "broken" else ""
        return textwrap.shorten(f"{settled}{cause}", _LONGEST_REASON, placeholder=" …")
    return textwrap.shorten(job.reason, _LONGEST_REASON, placeholder=" …") if ended else promise(job.quote)


def end_of(job: JobView, now: float) -> str:
    """When it ended, or when it probably will."""
    if job.state in OVER:
        return f"ended {short_clock(job.ended_at)}"
    if job.expected_at is None:
        return "not known yet"
    return f"{short_clock(job.expected_at)}, {from_now(max(job.expected_at.timestamp(), now + 1.0), now)}"
