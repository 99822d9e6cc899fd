"""The nodes: what there is, whether it is well, and taking one out of use."""

import html

from fastapi import Request
from nicegui import ui

from penstock.core import counted
from penstock.web.charts import hue
from penstock.web.format import percent
from penstock.web.layout import Text, ask, attempt, badge, live
from penstock.web.urls import job_url
from penstock.web.view_models import JobLabel, NodeUse
from penstock.web.viewer import Viewer
from penstock.wire import DrainedJob

_MOST_SLOTS = 64
_MOST_NAMED = 8
_DRAINED = ("drained", "draining")


async def build(viewer: Viewer, _: Request) -> None:
    shown: dict[str, _NodeCard] = {}
    summary = Text(classes="ps-soft")
    grid = ui.element("div").classes("ps-grid2")

    async def refresh() -> None:
        nodes = await ask(viewer.nodes)
        up = sum(node.view.state == "up" for node in nodes)
        devices = sum(len(node.view.devices) for node in nodes)
        summary.show(f"{up} of {counted(len(nodes), 'node')} up, {counted(devices, 'device')} in all.")
        for node in nodes:
            name = node.view.name
            if name not in shown:
                with grid:
                    shown[name] = _NodeCard(viewer, name)
            shown[name].show(node)

    await refresh()
    live(viewer, refresh, idle_s=3.0)


class _NodeCard:
    def __init__(self, viewer: Viewer, name: str) -> None:
        self._viewer, self._name, self._state = viewer, name, "up"
        with ui.element("section").classes("ps-card").props(f'aria-label="Node {html.escape(name)}"'):
            with ui.element("div").classes("ps-head"):
                ui.html(html.escape(name), sanitize=False, tag="h2")
                self._badge = Text()
                self._button = ui.button("Drain", on_click=self._press, color=None).props("flat dense no-caps")
                self._button.classes("ps-push ps-quiet").set_visibility(viewer.is_admin)
            self._body = Text()

    def show(self, node: NodeUse) -> None:
        self._state = node.view.state
        self._badge.show(badge(node.view.state))
        drained = node.view.state in _DRAINED
        self._button.set_text("Use it again" if drained else "Drain")
        self._button.props(f'aria-label="{"Use" if drained else "Drain"} node {html.escape(self._name)}"')
        self._body.show(node_html(node))

    async def _press(self) -> None:
        if self._state in _DRAINED:
            await attempt(self._viewer.undrain, self._name, done=f"{self._name} takes jobs again")
            return
        jobs = await ask(self._viewer.drained_jobs, self._name)
        answer = await _drain_question(self._name, jobs) if jobs else "drain"
        if answer:
            done = f"{self._name} takes no more jobs"
            await attempt(self._viewer.drain, self._name, done=done, now=answer == "now")


async def _drain_question(node: str, jobs: list[DrainedJob]) -> str | None:
    """What to do about the jobs on a node: "drain", "now", or nothing at all."""
    answers = [("Drain it", "drain", "ps-quiet"), ("Keep it", None, "ps-quiet")]
    if not all(job.resumable for job in jobs):
        answers[1:1] = [("Stop all jobs now", "now", "ps-danger")]
    with ui.dialog() as dialog, ui.element("div").classes("ps-card").props('role="alertdialog" aria-label="Drain"'):
        ui.label(f"Drain {node}?").classes("ps-verdict")
        for job in jobs[:_MOST_NAMED]:
            ui.label(f"{job.name} {job.happens(now=False)}").classes("ps-soft")
        if len(jobs) > _MOST_NAMED:
            ui.label(f"and {len(jobs) - _MOST_NAMED} more").classes("ps-soft")
        with ui.element("div").classes("ps-head").style("margin-top: 12px"):
            for label, answer, tone in answers:
                button = ui.button(label, on_click=lambda _, given=answer: dialog.submit(given), color=None)
                button.props("flat no-caps").classes(tone)
    return str(answer) if (answer := await dialog) else None


def node_html(node: NodeUse) -> str:
    """Devices as small squares in the colours of who holds them, and the jobs that may be seen."""
    view = node.view
    jobs = " ".join(map(_job, node.labels.items())) or "none that you see"
    pairs = list(zip(view.devices, node.holders, strict=True))
    slots = "".join(_slot(device, holder, view.state) for device, holder in pairs[:_MOST_SLOTS])
    held = sum(holder is not None for holder in node.holders)
    free = f"{len(view.devices) - held} free" if view.state == "up" else f"none free, for it is {view.state}"
    load = "not measured yet" if node.utilisation is None else f"{percent(node.utilisation)} busy"
    why = f"<dt>Not used</dt><dd>{html.escape('; '.join(view.unusable))}</dd>" if view.unusable else ""
    return (
        f'<div class="ps-slots" aria-hidden="true">{slots}</div>'
        f'<dl class="ps-facts" style="margin-top:10px"><dt>Devices</dt><dd>{len(view.devices)} × '
        f"{html.escape(view.kind)}, {held} held, {free}</dd><dt>Load</dt><dd>{load}</dd>"
        f"<dt>Jobs on it</dt><dd>{jobs}</dd>{why}</dl>"
    )


def _job(labelled: tuple[str, JobLabel]) -> str:
    job_id, label = labelled
    key = f'<i class="ps-key ps-j{label.number % 10}"></i>'
    return f'<a class="ps-chip" href="{job_url(job_id)}">{key}{html.escape(label.name)}</a>'


def _slot(device: int, holder: int | None, state: str) -> str:
    colour = "" if holder is None else f' style="background:{hue(holder)};border-color:transparent"'
    down = " down" if state != "up" else ""
    return f'<span class="ps-slot{down}" title="device {device}"{colour}></span>'
