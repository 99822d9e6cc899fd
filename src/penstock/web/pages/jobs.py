"""The list of jobs: search, filters, live progress. The server sends one page at a time, however many there are."""

from typing import Any

from fastapi import Request
from nicegui import events, ui

from penstock.control import Search
from penstock.web.format import TONES, from_now, promise
from penstock.web.layout import ask, empty, live
from penstock.web.urls import ROOT
from penstock.web.view_models import JobTableRow
from penstock.web.viewer import Viewer
from penstock.wire import OVER, JobPhase

_STATES = tuple(phase.value for phase in JobPhase)
_COLUMNS: list[dict[str, Any]] = [
    {"name": "name", "label": "Job", "field": "name", "align": "left", "sortable": True},
    {"name": "state", "label": "State", "field": "state", "align": "left", "sortable": True},
    {"name": "share", "label": "Progress", "field": "share", "align": "left"},
    {"name": "devices", "label": "Devices", "field": "devices", "align": "right"},
    {"name": "promise", "label": "Promise", "field": "promise", "align": "left"},
    {"name": "tenant", "label": "Tenant", "field": "tenant", "align": "left", "sortable": True},
    {"name": "number", "label": "Submitted", "field": "submitted", "align": "left", "sortable": True},
]
for _column in _COLUMNS:
    if _column["name"] in ("devices", "promise", "tenant", "number"):
        _column |= {
            "classes": f"ps-wide {'ps-wrap' if _column['name'] == 'promise' else ''}",
            "headerClasses": "ps-wide",
        }

_NAME = f"""<q-td :props="props"><a :href="'{ROOT}/jobs/' + props.row.id">{{{{ props.row.name }}}}</a>
<div class="ps-soft ps-mono" style="font-size:.8rem">{{{{ props.row.id }}}}</div></q-td>"""
_STATE = """<q-td :props="props"><span :class="'ps-badge ps-' + props.row.tone">{{ props.row.state }}</span></q-td>"""
_SHARE = """<q-td :props="props"><div class="ps-progress"><div class="ps-bar" role="progressbar" aria-valuemin="0"
 aria-valuemax="100" :aria-valuenow="props.row.share" :aria-label="'Progress of ' + props.row.name">
<span :style="{width: props.row.share + '%'}"></span></div>
<span style="width:3.2em">{{ props.row.share }} %</span></div></q-td>"""


async def build(viewer: Viewer, request: Request) -> None:
    query: dict[str, Any] = {"text": "", "states": [], "tenant": viewer.holder.sees, "page": 1, "size": 25}
    query |= {"order": "number", "down": True}
    if (state := request.query_params.get("state")) in _STATES:
        query["states"] = [state]
    with ui.element("div").classes("ps-card"):
        with ui.element("div").classes("ps-head"):
            search = ui.input("Search by name or id").props("outlined dense clearable debounce=250 type=search")
            search.style("flex: 1 1 220px")
            states = ui.select(list(_STATES), label="State", multiple=True, value=query["states"], clearable=True)
            states.props("outlined dense use-chips").style("flex: 1 1 200px")
            tenants = None
            if viewer.is_admin:
                tenants = ui.select(await ask(viewer.all_tenants), label="Tenant", clearable=True)
                tenants.props("outlined dense").style("flex: 0 1 180px")
        table = ui.table(columns=_COLUMNS, rows=[], row_key="id", pagination={"rowsPerPage": 25, "rowsNumber": 1})
        table.classes("ps-jobs w-full").props('flat :rows-per-page-options="[10, 25, 50, 100]" aria-label="Jobs"')
        for name, slot in (("name", _NAME), ("state", _STATE), ("share", _SHARE)):
            table.add_slot(f"body-cell-{name}", slot)
        with table.add_slot("no-data"):
            empty("No jobs", f'<a href="{ROOT}/submit">Submit one</a>, or loosen the filters above.')

    async def refresh() -> None:
        wanted = Search(
            text=query["text"], states=query["states"], tenant=query["tenant"], order=query["order"],
            descending=query["down"], offset=(query["page"] - 1) * query["size"], limit=query["size"],
        )  # fmt: skip
        lines, total = await ask(viewer.jobs, wanted)
        now = viewer.now()
        shown = {"page": query["page"], "rowsPerPage": query["size"], "rowsNumber": total, "sortBy": query["order"],
                 "descending": query["down"]}  # fmt: skip
        rows = [row_of(line, now) for line in lines]
        if rows != table.rows or shown != table.pagination:
            table.pagination = shown
            table.rows = rows
            table.update()

    async def paged(event: events.GenericEventArguments) -> None:
        asked = event.args["pagination"]
        query.update(page=asked["page"], size=asked["rowsPerPage"] or 100, order=asked["sortBy"] or "number")
        query["down"] = bool(asked["descending"])
        await refresh()

    async def filtered() -> None:
        query.update(text=(search.value or "").strip(), states=list(states.value or ()), page=1)
        if tenants is not None:
            query["tenant"] = tenants.value
        await refresh()

    table.on("request", paged)
    for control in (search, states, *((tenants,) if tenants is not None else ())):
        control.on_value_change(filtered)
    await refresh()
    live(viewer, refresh)


def row_of(line: JobTableRow, now: float) -> dict[str, Any]:
    """One row as the table wants it."""
    job = line.view
    return {
        "id": job.id, "name": job.name, "state": job.state, "tone": TONES.get(job.state, "mute"),
        "share": round(100 * line.share), "devices": len(job.devices) or "–", "tenant": job.tenant,
        "promise": job.reason[:80] if job.state in OVER and job.reason else promise(job.quote),
        "submitted": from_now(job.submitted_at, now),
    }  # fmt: skip
