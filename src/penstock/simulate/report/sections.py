"""The charts, each with a word on how to read it and the same as a table."""

from collections.abc import Callable
from html import escape

import numpy as np

from penstock.core import format_duration
from penstock.policies import Floats
from penstock.simulate.report.arrays import FATES, Outcomes
from penstock.simulate.report.findings import best, plainest
from penstock.simulate.report.frame import chart, in_words, section, table
from penstock.simulate.report.study import Study
from penstock.simulate.report.tables import count, percent, time

_TABLE_TIMES = 12
_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)


def fates(study: Study) -> str:
    keys = "".join(f"<li><i style='background:var(--{fate})'></i>{words}</li>" for fate, words in _FATE_WORDS.items())
    rows = [[run.policy, *(str(run.count(fate)) for fate in FATES)] for run in study.runs]
    shown = table(["policy", *_FATE_WORDS.values()], rows, "What became of the jobs")
    why = "Every job once: in time, late, refused before it could miss its deadline, or done without one."
    return section("What became of the jobs", why, chart("fates", shown) + f"<ul class='keys'>{keys}</ul>", "fates-all")


_FATE_WORDS = {
    "met": "in time", "late": "late", "declined": "refused in advance", "done": "done, had no deadline",
    "unfinished": "not finished", "cancelled": "cancelled by its user",
}  # fmt: skip


def distributions(study: Study) -> str:
    jct = section(
        "How long jobs take", "Share of all jobs that finished within a time; a curve that ends below 100% refused "
        "some or did not finish them.", chart("cdf-jct", _quantiles(study, lambda run: run.jct_s)),
    )  # fmt: skip
    wait = section(
        "How long jobs wait", "Share of all jobs that got their first device within a time after submission.",
        chart("cdf-wait", _quantiles(study, lambda run: run.wait_s)),
    )  # fmt: skip
    return f"<div class='pair'>{jct}{wait}</div>"


def _quantiles(study: Study, values: Callable[[Outcomes], Floats]) -> str:
    head = ["policy", *(f"{100 * share:g}% of those there" for share in _SHARES)]
    rows = []
    for run in study.runs:
        there = values(run)[~np.isnan(values(run))]
        marks = [float(np.quantile(there, share)) if len(there) else np.nan for share in _SHARES]
        rows.append([run.policy, *map(time, marks)])
    return table(head, rows, "Quantiles")


def over_time(study: Study) -> str:
    use = section(
        "How full the cluster is", f"Share of the {study.devices} devices held by jobs; each step is the mean of "
        f"{format_duration(study.clock.bin_s)}.", chart("use", _sampled(study, study.use, percent)),
    )  # fmt: skip
    queue = section(
        "How long the queue is", "Jobs that have not had a device yet, without those that were refused.",
        chart("queue", _sampled(study, study.queue, lambda value: f"{value:.1f}")),
    )  # fmt: skip
    return f"<div class='pair'>{use}{queue}</div>"


def _sampled(study: Study, series: Callable[[Outcomes], Floats | None], write: Callable[[float], str]) -> str:
    """Means over a dozen equal stretches."""
    stretch = (study.clock.end - study.clock.start) / _TABLE_TIMES
    head = ["policy", *(f"from {format_duration(place * stretch)}" for place in range(_TABLE_TIMES))]
    rows = []
    for run in study.runs:
        values = series(run)
        parts = [] if values is None else np.array_split(values, _TABLE_TIMES)
        rows.append([run.policy, *(write(float(part.mean())) for part in parts)] if parts else [run.policy, "not kept"])
    return table(head, rows, "Means over time")


def gantt(study: Study) -> str:
    first, second = _shown_first(study)
    panes = "".join(
        f"<figure class='gantt'><div class='tools'><label>Policy {_select(study, chosen, f'on-{place}')}</label></div>"
        "<div class='chart'></div><figcaption></figcaption></figure>"
        for place, chosen in enumerate(dict.fromkeys((first, second)))
    )
    buttons = "".join(
        f"<button type='button' id='zoom-{name}' aria-label='{label}'>{sign}</button>"
        for name, label, sign in (
            ("in", "Zoom in", "+"), ("out", "Zoom out", "−"), ("left", "Earlier", "←"), ("right", "Later", "→"),
            ("all", "Whole trace", "Whole trace"),
        )
    )  # fmt: skip
    keys = "".join(f"<li><i style='background:var(--{fate})'></i>{words}</li>" for fate, words in _FATE_WORDS.items())
    why = (
        "Devices downwards, time to the right, coloured by how the job ended; shades tell neighbours apart. Drag to "
        "move, Ctrl or Shift and wheel to zoom, or focus it and use the arrow keys, +, - and 0."
    )
    inside = f"<div class='tools' role='group' aria-label='Zoom'>{buttons}</div>{panes}<ul class='keys'>{keys}</ul>"
    return section("Who ran where", why, inside + in_words(_stays(study)), "gantt")


def _stays(study: Study) -> str:
    rows = []
    for run in study.runs:
        bars = run.timeline.bars if run.timeline is not None else []
        held = float(run.device_seconds.sum())
        rows.append([run.policy, count(len(bars)) if bars else "not kept", f"{held / 3600:,.0f}",
                     count(int(run.rescales.sum()))])  # fmt: skip
    return table(["policy", "stays on neighbouring devices", "device-hours", "resizes"], rows, "Who ran where, in sum")


def _shown_first(study: Study) -> tuple[int, int]:
    """The best and the plainest policy, by place."""
    runs = list(study.runs)
    drawn = [run for run in runs if run.timeline is not None] or runs
    return runs.index(best(drawn)), runs.index(plainest(drawn))


def _select(study: Study, chosen: int, name: str) -> str:
    options = "".join(
        f"<option value='{place}'{' selected' if place == chosen else ''}>{escape(run.policy)}</option>"
        for place, run in enumerate(study.runs)
    )
    return f"<select id='{name}'>{options}</select>"


def scatter(study: Study) -> str:
    lead, plain = _shown_first(study)
    tools = (
        f"<div class='tools'><label>From {_select(study, plain, 'scatter-x')}</label>"
        f"<label>to {_select(study, lead, 'scatter-y')}</label><label>compare <select id='scatter-what'>"
        "<option value='jct'>completion time</option><option value='wait'>waiting time</option></select></label></div>"
    )
    why = "One point per job that both policies ran. Below the line it is faster under the second. Colours are fates."
    inside = (
        f"{tools}<figure><div class='chart' id='scatter'></div><figcaption id='scatter-said' aria-live='polite'>"
        f"</figcaption></figure>{in_words(_movers(study, plain, lead))}"
    )
    return section("Job by job", why, inside, "jobs")


def _movers(study: Study, before: int, after: int) -> str:
    """The jobs whose completion time changes most, both ways."""
    one, other = study.runs[before], study.runs[after]
    change = other.jct_s - one.jct_s
    known = np.flatnonzero(~np.isnan(change))
    order = known[np.argsort(change[known], kind="stable")]
    picked = dict.fromkeys([*order[:8].tolist(), *order[-8:].tolist()])
    rows = [
        [study.crowd.ids[row], study.crowd.models[row] or "-", str(int(study.crowd.requested[row])),
         time(float(one.jct_s[row])), time(float(other.jct_s[row])), format_duration(float(change[row]))]
        for row in picked
    ]  # fmt: skip
    head = ["job", "model", "devices asked for", f"JCT under {one.policy}", f"JCT under {other.policy}", "difference"]
    return table(head, rows, "Jobs that change most")
