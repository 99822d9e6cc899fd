"""Changing what a job that is not over asks for: its deadline, its devices, its priority."""

from nicegui import ui

from penstock.web.layout import attempt
from penstock.web.viewer import Viewer

_PENCIL = "M4 16v4h4L19 9l-4-4zM16 4l4 4l1-1a1.4 1.4 0 0 0 0-2l-2-2a1.4 1.4 0 0 0-2 0z"
_FIELDS = {
    "deadline": "New deadline, such as 6h or friday 18:00",
    "devices": "Devices at least and at most, such as 1..8",
    "priority": "Priority, 0 to 100",
}
_ADVICE = "What is left empty stays as it is. A deadline that cannot be promised is refused, and nothing changes then."


class JobChanges:
    """The button, and the questions behind it."""

    def __init__(self, viewer: Viewer, job_id: str) -> None:
        self._viewer, self._id = viewer, job_id
        self.button = ui.button("Change", icon=_PENCIL, on_click=self._ask, color=None)
        self.button.props("flat dense no-caps").classes("ps-quiet")

    async def _ask(self) -> None:
        with ui.dialog() as dialog, ui.element("div").classes("ps-card ps-form") as card:
            card.props('role="dialog" aria-label="Change the job"')
            ui.label("Change this job").classes("ps-verdict")
            fields = {key: ui.input(label).props("outlined dense") for key, label in _FIELDS.items()}
            effort = ui.checkbox("Best effort: no deadline")
            ui.label(_ADVICE).classes("ps-soft")
            with ui.element("div").classes("ps-head"):
                for label, answer in (("Change it", True), ("Back", False)):
                    button = ui.button(label, on_click=lambda _, given=answer: dialog.submit(given), color=None)
                    button.props("flat no-caps").classes("ps-quiet")
        if await dialog:
            wanted = {key: text for key, field in fields.items() if (text := (field.value or "").strip())}
            more = {"best_effort": True} if effort.value else {}
            await attempt(self._viewer.edit, self._id, wanted | more, done=f"{self._id} is changed")
