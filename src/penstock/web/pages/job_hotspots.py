"""Where the time of a job's steps goes, and which of its workers are slow: tables, once something was seen."""

from collections.abc import Sequence

from nicegui import ui

from penstock.web.layout import Text, ask, table_html
from penstock.web.viewer import Viewer
from penstock.wire import HotspotsView, JobHotspotsView, WorkerTimesView

_PARTS = ("input", "host", "kernels", "communication", "checkpoint")
_MOST_OPERATORS = 6


class JobHotspotsPanel:
    """Filled again and again; not there for scripts that nobody measures."""

    def __init__(self, viewer: Viewer, job_id: str) -> None:
        self._viewer, self._id = viewer, job_id
        with ui.element("section").classes("ps-card").props('aria-label="Where a step\'s time goes"') as self._card:
            ui.html("Where a step's time goes", sanitize=False, tag="h2")
            self._text = Text(classes="w-full")
        self._card.set_visibility(False)

    async def refresh(self) -> None:
        found = await ask(self._viewer.hotspots, self._id)
        self._card.set_visibility(found.profile is not None or bool(found.workers))
        self._text.show(hotspots_html(found))


def hotspots_html(found: JobHotspotsView) -> str:
    """Parts, operators and workers as tables."""
    profile = "" if found.profile is None else _parts_html(found.profile) + _operators_html(found.profile)
    return profile + (_workers_html(found.workers) if found.workers else "")


def _parts_html(profile: HotspotsView) -> str:
    rows = [
        (part, _ms(seconds), f"{seconds / profile.step_s:.0%}" if profile.step_s else "")
        for part in _PARTS
        for seconds in [getattr(profile, f"{part}_s")]
    ]
    return table_html((f"a step on {profile.device}", _ms(profile.step_s), "share"), rows)


def _operators_html(profile: HotspotsView) -> str:
    rows = [(one.name, _ms(one.seconds), f"{one.calls:g}") for one in profile.operators[:_MOST_OPERATORS]]
    return table_html(("operator or kernel", "a step", "calls"), rows) if rows else ""


def _workers_html(workers: Sequence[WorkerTimesView]) -> str:
    rows = [
        (
            one.worker, one.place, _ms(one.step_s), _ms(one.compute_s), _ms(one.input_s), _ms(one.wait_s),
            f"{one.slower:.1f}x slower" if one.slower else "",
        )
        for one in workers
    ]  # fmt: skip
    return table_html(("worker", "on", "a step", "compute", "input", "waits", ""), rows)


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms"
