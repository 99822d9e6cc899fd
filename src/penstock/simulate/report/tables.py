"""The figures as tables: the headline, and how each class of jobs fared."""

import math
from collections.abc import Callable, Sequence
from html import escape

from penstock.core import format_duration
from penstock.simulate.metrics import Summary
from penstock.simulate.report.frame import Best, Markup, section, table
from penstock.simulate.report.job_groups import classes_of, fortune
from penstock.simulate.report.study import Study

_Column = tuple[str, Callable[[Summary], float], Callable[[float], str], int]
"""Name, value, how it is written, and whether more (1), less (-1) or neither (0) is better."""


def count(value: float) -> str:
    return f"{value:,.0f}"


def percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.1f}%"


def time(value: float) -> str:
    return "-" if math.isnan(value) else format_duration(value)


_COLUMNS: tuple[_Column, ...] = (
    ("in time", lambda s: s.ratio, percent, 1),
    ("met", lambda s: s.met, count, 1),
    ("late", lambda s: s.late, count, -1),
    ("refused", lambda s: s.declined, count, 0),
    ("promised", lambda s: s.promises, count, 0),
    ("broken", lambda s: s.broken if s.promises else math.nan, lambda v: "-" if math.isnan(v) else count(v), -1),
    ("mean JCT", lambda s: s.jct_mean_s, time, -1),
    ("p50", lambda s: s.jct_p50_s, time, -1),
    ("p99", lambda s: s.jct_p99_s, time, -1),
    ("mean wait", lambda s: s.queueing_mean_s, time, -1),
    ("use", lambda s: s.utilisation, percent, 0),
    ("resizes", lambda s: s.rescales, count, 0),
    ("preempted", lambda s: s.preemptions, count, -1),
    ("standing still", lambda s: s.overhead_share, percent, -1),
    ("work lost", lambda s: s.lost_share, percent, -1),
    ("energy", lambda s: s.energy_kwh, lambda v: "-" if math.isnan(v) else f"{v:,.1f} kWh", -1),
    ("worst fairness", lambda s: s.fairness_worst, lambda v: "-" if math.isnan(v) else f"{v:.1f}", -1),
    ("least fair tenant, whole run", lambda s: s.run_fairness_least, lambda v: "-" if math.isnan(v) else f"{v:.2f}", 1),
    ("any day", lambda s: s.day_fairness_least, lambda v: "-" if math.isnan(v) else f"{v:.2f}", 1),
    ("last day", lambda s: s.tenant_fairness_least, lambda v: "-" if math.isnan(v) else f"{v:.2f}", 1),
    ("decision", lambda s: s.decision_mean_ms / 1e3, lambda v: "-" if math.isnan(v) else f"{1e3 * v:.2g} ms", -1),
)


def headline(study: Study) -> str:
    summaries = [run.summary for run in study.runs]
    told = {name: _best([value(s) for s in summaries], better) for name, value, _, better in _COLUMNS}
    rows = [
        [_named(study, place), *(_figure(s, column, told[column[0]]) for column in _COLUMNS)]
        for place, s in enumerate(summaries)
    ]
    why = (
        "The best of each column is marked where one direction is better. JCT is the time from submission to the end; "
        "refused jobs have none, so compare it together with the jobs that were refused."
    )
    inside = table(["policy", *(name for name, *_ in _COLUMNS)], rows, "Headline figures of each policy")
    return section("Headline", why, inside, "headline")


def _named(study: Study, place: int) -> Markup:
    return Markup(f"<i style='background:var(--p{place % 8})'></i>{escape(study.runs[place].policy)}")


def _best(values: Sequence[float], better: int) -> float:
    there = [value for value in values if not math.isnan(value)]
    if not better or len(set(there)) < 2:
        return math.nan
    return max(there) if better > 0 else min(there)


def _figure(summary: Summary, column: _Column, best: float) -> str:
    _, value, write, _ = column
    text = write(value(summary))
    return Best(text) if value(summary) == best else text


def classes(study: Study) -> str:
    """Every class under every policy."""
    rows: list[list[str]] = []
    before = ""
    for group in classes_of(study.crowd):
        if group.sorted_by != before:
            rows.append([f"by {group.sorted_by}"])
            before = group.sorted_by
        told = [fortune(study.crowd, run, group) for run in study.runs]
        best = _best([one.ratio for one in told], 1)
        cells = [f"{percent(one.ratio)} · {time(one.jct_p50_s)}" for one in told]
        marked = [Best(cell) if one.ratio == best else cell for one, cell in zip(told, cells, strict=True)]
        rows.append([group.label, count(len(group)), *marked])
    if not rows:
        return ""
    why = "Deadlines met, and the median completion time of those that finished, for each class of jobs."
    head = ["class", "jobs", *(run.policy for run in study.runs)]
    return section("Who gains, who pays", why, table(head, rows, "Classes of jobs under each policy"), "classes")
