"""Submitting: fill in or paste a job, watch the promise change with the deadline, then hand it in."""

import asyncio
import contextlib
import html
import math
from collections.abc import Callable
from itertools import count
from typing import Any

import yaml
from fastapi import Request
from nicegui import events, ui

from penstock.core import InputError, PenstockError, format_duration, parse_duration
from penstock.spec import parse_yaml
from penstock.web import charts
from penstock.web.format import clock, device_time, energy
from penstock.web.layout import Figure, Text, ask, badge, go_to
from penstock.web.urls import job_url
from penstock.web.view_models import DevicePower
from penstock.web.viewer import Viewer
from penstock.wire import JobDetail, QuoteView, rounded_up

_SHORTEST_S, _LONGEST_S = 10.0, 14 * 86400.0
_SETTLE_S = 0.35
"""Typing has to pause this long before a quote is asked for."""
_SWEEP = (0.35, 0.6, 1.0, 1.6, 2.5, 4.0)
"""Deadlines shown beside the chosen one, as multiples of it."""
_COLUMNS = ("deadline", "answer", "devices", "device time", "energy")
_FIELDS = {
    "name": "Name", "command": "Command that every worker runs, such as python train.py",
    "environment.working_dir": "Working directory on the server", "work": "Work, such as 10_000 steps or 30 epochs",
    "devices": "Devices at least and at most, such as 1..8",
}  # fmt: skip
_WAITING = "<p class='ps-soft'>Fill in the job: the answer appears here, before anything is submitted.</p>"


async def build(viewer: Viewer, request: Request) -> None:
    before = await _job_before(viewer, request.query_params.get("from", ""))
    with ui.element("div").classes("ps-grid2"):
        form = _Form(before)
        answer = _Answer(viewer)
    turn = count(1)
    latest = 0

    async def ask_again() -> None:
        """Only the last of several quick changes is worth an answer."""
        nonlocal latest
        mine = latest = next(turn)
        await asyncio.sleep(_SETTLE_S)
        if mine == latest:
            await answer.quote(form, lambda: mine == latest)

    async def submit() -> None:
        form.submit.disable()
        try:
            job = await ask(viewer.submit, form.spec())
        except PenstockError as error:
            answer.trouble(str(error))
            form.submit.enable()
            return
        go_to(job_url(job.id))

    form.on_change(ask_again)
    form.submit.on_click(submit)
    ui.timer(0.1, ask_again, once=True)


async def _job_before(viewer: Viewer, job_id: str) -> JobDetail | None:
    """The job that is to be submitted again with changes, if there is one of that name to see."""
    if not job_id:
        return None
    try:
        return (await ask(viewer.job, job_id)).detail
    except PenstockError:
        ui.notify(f"There is no job {job_id} that you may see; the form is a new one.", type="warning")
        return None


def file_of(before: JobDetail | None) -> str:
    """Return the text of an earlier job's file; an empty one for a new job."""
    return "" if before is None else yaml.safe_dump(before.spec, sort_keys=False, width=100)


def goal_of(before: JobDetail | None) -> tuple[str, str]:
    """The way a goal is given, and a deadline from now: as an earlier job had it, where that can be said again."""
    if before is None:
        return "deadline", "1h"
    if before.spec.get("best_effort"):
        return "best", "1h"
    with contextlib.suppress(InputError):
        return "deadline", short(parse_duration(str(before.spec.get("deadline", ""))))
    return "file", "1h"


class _Form:
    """The job, filled in or pasted, and the goal beside it: the part people try things with.

    The file is the truth; the fields are a way to write it. They are read from it when they come into sight.
    """

    def __init__(self, before: JobDetail | None) -> None:
        with ui.element("section").classes("ps-card ps-form").props('aria-label="The job"'):
            with ui.element("div").classes("ps-head"):
                ui.html("The job" if before is None else "Submit again, with changes", sanitize=False, tag="h2")
                ways = {"fields": "Fill in", "file": "Job file"}
                self._way = ui.toggle(ways, value="fields" if before is None else "file")
                self._way.props('dense unelevated no-caps aria-label="How to describe it"').classes("ps-push")
            with ui.element("div").classes("ps-form") as self._fields:
                self._inputs = {key: ui.input(label).props("outlined dense") for key, label in _FIELDS.items()}
            if before is not None:
                ui.html(_like(before), sanitize=False).classes("ps-soft")
            self.file = ui.textarea("Job file (YAML)", value=file_of(before)).props("outlined spellcheck=false rows=14")
            self.file.props('placeholder="command: python train.py" stack-label')
            self.file.props('input-class="ps-mono"').classes("w-full").set_visibility(False)
            self._goal(*goal_of(before))
            self.submit = ui.button("Submit").props("unelevated no-caps").classes("ps-primary")
        self._way.on_value_change(self._switch)
        for field in self._inputs.values():
            field.on_value_change(self._write)
        self._switch()

    def _goal(self, chosen: str, within: str) -> None:
        ways = {"deadline": "Deadline", "best": "Best effort", "file": "As in the file"}
        self.goal = ui.toggle(ways, value=chosen).props('unelevated no-caps aria-label="Goal"')
        with ui.element("div").classes("w-full") as deadline:
            with ui.element("div").classes("ps-row"):
                self.text = ui.input("Deadline from now", value=within).props("outlined dense")
                self.soft = ui.checkbox("Late is better than never")
            self.slider = ui.element("input").props(
                f'type="range" min="0" max="100" step="0.5" value="{_place(3600.0)}"'
            )
            self.slider.props('aria-label="Deadline" aria-valuetext="1h"').classes("ps-range")
            ui.html("<span>10 s</span><span>14 d</span>", sanitize=False).classes("ps-ends ps-soft")
        self.slider.on("input", self._slid, js_handler="event => emit(Number(event.target.value))")
        self.text.on_value_change(self._typed)
        deadline.set_visibility(chosen == "deadline")
        self.goal.on_value_change(lambda: deadline.set_visibility(self.goal.value == "deadline"))

    def on_change(self, handler: Any) -> None:
        for control in (self.file, self.goal, self.text, self.soft):
            control.on_value_change(handler)

    def _switch(self) -> None:
        filling = self._way.value == "fields"
        self._fields.set_visibility(filling)
        self.file.set_visibility(not filling)
        with contextlib.suppress(InputError):
            values = read_job(self.file.value or "")
            for key, field in self._inputs.items():
                field.set_value(_dig(values, key))

    def _write(self) -> None:
        """What the fields say, into the file; its other keys stay."""
        if self._way.value != "fields":
            return
        with contextlib.suppress(InputError):
            values = {} if self.is_empty else read_job(self.file.value or "")
            for key, field in self._inputs.items():
                _bury(values, key, (field.value or "").strip())
            text = yaml.safe_dump(values, sort_keys=False, width=100)
            if text != self.file.value:
                self.file.set_value(text)

    def _slid(self, event: events.GenericEventArguments) -> None:
        self.text.set_value(short(_seconds_at(float(event.args))))

    def _typed(self) -> None:
        """The slider follows, as far as it reaches."""
        with contextlib.suppress(InputError):
            seconds = parse_duration(self.text.value or "")
            self.slider.props["value"] = min(100.0, max(0.0, _place(max(seconds, 1e-3))))
            self.slider.props["aria-valuetext"] = short(seconds)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is filled in yet."""
        return (self.file.value or "").strip() in ("", "{}")

    @property
    def deadline_s(self) -> float | None:
        """Seconds from now, if a deadline is chosen here."""
        return parse_duration(self.text.value or "") if self.goal.value == "deadline" else None

    def spec(self) -> dict[str, Any]:
        """What would be submitted."""
        values = read_job(self.file.value or "")
        if self.goal.value == "file":
            return values
        plain = {key: value for key, value in values.items() if key not in ("deadline", "goal", "best_effort")}
        if self.goal.value == "best":
            return plain | {"best_effort": True}
        strictness = "soft" if self.soft.value else "hard"
        return plain | {"goal": {"deadline": f"{self.deadline_s:g}s", "strictness": strictness}}


class _Answer:
    """The quote, and what other deadlines would be told."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        with ui.element("div").classes("ps-form"):
            with ui.element("section").classes("ps-card").props('aria-label="The promise" aria-live="polite"'):
                ui.html("The promise", sanitize=False, tag="h2")
                self._quote = Text(_WAITING)
            self._figure = Figure("Deadline against devices and device time", 260)
            self._figure.card.set_visibility(False)

    def trouble(self, message: str) -> None:
        self._quote.show(f"<p class='ps-trouble' role='alert'>{html.escape(message)}</p>")
        self._figure.card.set_visibility(False)

    async def quote(self, form: _Form, wanted: Callable[[], bool]) -> None:
        """Show what the job would be told; an answer that came too late is dropped, and no job has none."""
        if form.is_empty:
            self._quote.show(_WAITING)
            self._figure.card.set_visibility(False)
            return
        try:
            spec, seconds = form.spec(), form.deadline_s
            quote = await ask(self._viewer.quote, spec)
            power = await ask(self._viewer.device_power)
            if not wanted():
                return
            self._quote.show(quote_html(quote, power))
            deadlines = [max(1.0, (seconds or 0.0) * factor) for factor in _SWEEP] if seconds is not None else []
            quotes = await ask(self._viewer.quotes, spec, deadlines)
            if wanted():
                self._draw(deadlines, quotes, seconds or 0.0, power)
        except PenstockError as error:
            if wanted():
                self.trouble(str(error))

    def _draw(self, deadlines: list[float], quotes: list[QuoteView], chosen: float, power: DevicePower | None) -> None:
        """What other deadlines would take; nothing to draw while no answer says what it takes."""
        drawn = any(quote.device_seconds for quote in quotes)
        self._figure.card.set_visibility(drawn)
        if not drawn:
            return
        pairs = list(zip(deadlines, quotes, strict=True))
        rows = [
            [
                format_duration(at),
                q.verdict,
                str(q.devices),
                device_time(q.device_seconds),
                _energy(q.device_seconds, power),
            ]
            for at, q in pairs
        ]
        kept = [format_duration(at) for at, quote in pairs if quote.verdict != "refused"]
        words = f"The shortest of these that would be kept is {kept[0]}." if kept else "None of these can be kept."
        options = charts.trade_off(deadlines, quotes, chosen)
        self._figure.show(options, words, _COLUMNS, rows)


def quote_html(quote: QuoteView, power: DevicePower | None) -> str:
    """A quote as people read it."""
    facts = []
    if quote.deadline is not None:
        facts.append(("Promised by", clock(quote.deadline)))
    if quote.speed == "guessed":
        facts.append(("Expected end", "not known yet: its speed was never measured"))
    if quote.finish_at is not None:
        facts.append(("Planned end", f"{clock(quote.finish_at)} at the latest"))
        facts.append(("Devices", f"up to {quote.devices}"))
        facts.append(("Device time", device_time(quote.device_seconds)))
        facts.append(("Energy", _energy(quote.device_seconds, power)))
    if quote.counter_offer is not None:
        facts.append(("Could be promised", f"a deadline at {clock(rounded_up(quote.counter_offer, 60))} or later"))
    if quote.offer_until is not None:
        facts.append(("Held until", f"{clock(quote.offer_until)}: the same job, submitted by then, is promised"))
    if quote.answer_by is not None:
        facts.append(("Final answer", f"by {clock(quote.answer_by)}"))
    lines = "".join(f"<dt>{name}</dt><dd>{html.escape(value)}</dd>" for name, value in facts)
    return (
        f"<p class='ps-verdict' style='margin:8px 0'>{badge(quote.verdict)}</p><p>{html.escape(quote.reason)}</p>"
        f"<dl class='ps-facts' style='margin-top:12px'>{lines}</dl>"
    )


def _energy(device_s: float, power: DevicePower | None) -> str:
    if power is None:
        return "not known: no node says what it draws"
    return f"about {energy(power.watts * device_s)}" + (", estimated" if power.estimated else ", as measured now")


def _like(before: JobDetail) -> str:
    link = f'<a href="{job_url(before.id)}">{html.escape(before.name)}</a>'
    hidden = " Values that are secret are not in its file: fill them in." if "***" in file_of(before) else ""
    return f"Filled in as {link} was. It becomes a new job with checkpoints of its own.{hidden}"


def read_job(text: str) -> dict[str, Any]:
    """The keys of a job file that was typed in."""
    if not text.strip():
        raise InputError("an empty job file", "at least script and work", "Try: script: train.py, work: 1000 steps")
    return parse_yaml(text, "the job file").values


def short(seconds: float) -> str:
    """A duration that reads well and can be read back."""
    return format_duration(seconds).replace(" ", "")


def _place(seconds: float) -> float:
    """Where a deadline lies on the slider; every step is the same factor."""
    return 100.0 * math.log(seconds / _SHORTEST_S) / math.log(_LONGEST_S / _SHORTEST_S)


def _seconds_at(place: float) -> float:
    seconds = float(_SHORTEST_S * (_LONGEST_S / _SHORTEST_S) ** (place / 100.0))
    unit = 86400.0 if seconds > 4 * 86400 else 3600.0 if seconds > 6 * 3600 else 60.0 if seconds > 300 else 1.0
    return max(unit, round(seconds / unit) * unit)


def _dig(values: dict[str, Any], key: str) -> str:
    """The value under a dotted key, as text."""
    value: Any = values
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return " ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)


def _bury(values: dict[str, Any], key: str, text: str) -> None:
    """Put text under a dotted key; an empty one takes the key away."""
    *above, last = key.split(".")
    for part in above:
        values = values.setdefault(part, {})
    if text:
        values[last] = text
    else:
        values.pop(last, None)
