"""One study as a page: words first, then the table, then the charts."""

from html import escape

import numpy as np

from penstock.core import format_duration
from penstock.simulate.report.findings import findings
from penstock.simulate.report.frame import Page, section
from penstock.simulate.report.payload import payload
from penstock.simulate.report.sections import distributions, fates, gantt, over_time, scatter
from penstock.simulate.report.study import Study
from penstock.simulate.report.tables import classes, headline

_SCRIPTS = ("kit.js", "theme.js", "charts.js", "gantt.js", "main.js")


def page_of(study: Study) -> str:
    """The page as text."""
    names = [run.policy for run in study.runs]
    title = f"{study.name} under {names[0]}" if len(names) == 1 else f"{study.name}: {len(names)} policies compared"
    body = "".join(
        (
            _words(study), _legend(study), headline(study), fates(study), distributions(study), over_time(study),
            gantt(study), scatter(study), classes(study),
        )
    )  # fmt: skip
    note = f"Re-run with seed {study.seed} to get the same figures."
    return Page(
        title=title, facts=_facts(study), body=body, data=payload(study), scripts=_SCRIPTS, note=note
    ).html()  # fmt: skip


def _facts(study: Study) -> list[tuple[str, str]]:
    due = int(np.isfinite(study.crowd.deadline).sum())
    return [
        ("jobs", f"{len(study.crowd):,}"), ("with a deadline", f"{due:,}"), ("cluster", str(study.setting.cluster)),
        ("devices", f"{study.devices:,}"), ("slot", format_duration(study.setting.slot)),
        ("overhead", study.setting.overhead), ("span", format_duration(study.clock.end - study.clock.start)),
    ]  # fmt: skip


def _words(study: Study) -> str:
    found = findings(study.crowd, study.runs, study.devices, study.clock)
    items = "".join(f"<li><h3>{escape(one.title)}</h3><p>{escape(one.text)}</p></li>" for one in found)
    return section("In a few words", "", f"<ul class='findings'>{items}</ul>", "words")


def _legend(study: Study) -> str:
    dashes = ("", "7 4", "2 4", "10 4 2 4")
    chips = "".join(
        f"<button type='button' class='chip' data-policy='{place}' aria-pressed='true'><svg viewBox='0 0 26 10' "
        f"aria-hidden='true'><path d='M1 5H25' stroke='var(--p{place % 8})' stroke-width='3' stroke-dasharray="
        f"'{dashes[place % 4]}'/></svg>{escape(run.policy)}</button>"
        for place, run in enumerate(study.runs)
    )
    return f"<div class='legend' role='group' aria-label='Policies shown'><span class='soft'>Show</span>{chips}</div>"
