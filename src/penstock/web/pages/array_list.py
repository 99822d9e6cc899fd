"""Job arrays above the list of jobs: a line each while one of their jobs is not over, and buttons for all of them."""

import html
from collections.abc import Callable

from nicegui import ui

from penstock.control import Action
from penstock.core import counted
from penstock.web.format import TONES, from_now
from penstock.web.layout import Text, ask, attempt, attempt_with_loss, confirmed
from penstock.web.urls import ROOT
from penstock.web.viewer import Viewer
from penstock.wire import OVER, ArrayView, JobPhase

_PHASES = tuple(phase.value for phase in JobPhase)


class ArrayList:
    """The arrays somebody may see; nothing is shown where there is none."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._lines: dict[str, _ArrayLine] = {}
        self._card = ui.element("section").classes("ps-card").props('aria-label="Job arrays"')
        with self._card:
            ui.html("Job arrays", sanitize=False, tag="h2")
        self._card.set_visibility(False)

    async def refresh(self) -> None:
        arrays = {array.id: array for array in await ask(self._viewer.arrays)}
        for gone in self._lines.keys() - arrays.keys():
            self._lines.pop(gone).remove()
        for array in arrays.values():
            if array.id not in self._lines:
                with self._card:
                    self._lines[array.id] = _ArrayLine(self._viewer, array.id)
            self._lines[array.id].show(array, self._viewer.now())
        self._card.set_visibility(bool(arrays))


class _ArrayLine:
    """One array and its buttons."""

    def __init__(self, viewer: Viewer, array: str) -> None:
        self._viewer, self._id = viewer, array
        with ui.element("div").classes("ps-head") as self._row:
            self._text = Text()
            with ui.element("div").classes("ps-push").style("display: flex; gap: 4px") as buttons:
                self._pause = ui.button("Pause", on_click=self._ask_pause, color=None)
                self._pause.props(f'flat dense no-caps aria-label="Pause array {array}"').classes("ps-quiet")
                self._resume = self._button("Resume", viewer.resume_array, "asks for devices again")
                cancel = ui.button("Cancel", on_click=self._ask_cancel, color=None)
                cancel.props(f'flat dense no-caps aria-label="Cancel array {array}"').classes("ps-danger")
            buttons.set_visibility(viewer.may(Action.STEER))

    def show(self, array: ArrayView, now: float) -> None:
        self._text.show(array_html(array, now))
        self._pause.set_visibility(any(state != "paused" for state in _open_states(array)))
        self._resume.set_visibility("paused" in array.states)

    def remove(self) -> None:
        self._row.delete()

    def _button(self, label: str, action: Callable[[str], None], done: str) -> ui.button:
        async def press() -> None:
            await attempt(action, self._id, done=f"{self._id} {done}")

        button = ui.button(label, on_click=press, color=None).props(
            f'flat dense no-caps aria-label="{label} array {self._id}"'
        )
        return button.classes("ps-quiet")

    async def _ask_pause(self) -> None:
        await attempt_with_loss(self._viewer.pause_array, self._id, done=f"{self._id} is paused")

    async def _ask_cancel(self) -> None:
        if await confirmed(
            "End every job of this array for good?", "Checkpoints and logs stay.", yes="Cancel the array"
        ):
            await attempt(self._viewer.cancel_array, self._id, done=f"{self._id} is cancelled")


def array_html(array: ArrayView, now: float) -> str:
    """Its name with a link to its jobs, and how many of them stand where."""
    counts = " ".join(
        f'<span class="ps-badge ps-{TONES.get(state, "mute")}">{array.states[state]} {state}</span>'
        for state in sorted(array.states, key=_PHASES.index)
    )
    link = f'<a href="{ROOT}/jobs?text={html.escape(array.id)}">{html.escape(array.name)}</a>'
    facts = f"{counted(array.jobs, 'job')}, submitted {from_now(array.submitted_at, now)}, tenant {array.tenant}"
    return " ".join((link, _soft(array.id, " ps-mono"), counts, _soft(facts)))


def _soft(text: str, classes: str = "") -> str:
    return f'<span class="ps-soft{classes}">{html.escape(text)}</span>'


def _open_states(array: ArrayView) -> list[str]:
    return [state for state in array.states if state not in OVER]
