"""A what-if study for people: one table, a few sentences, or a page; terminal and dashboard say the same."""

from collections.abc import Iterator, Sequence

from penstock.core import format_duration
from penstock.simulate import Page, section, table
from penstock.wire import FiguresView, ReplayView, WhatIfReport

WHATIF_COLUMNS = (
    "scenario", "promises kept", "broken", "refused", "mean completion", "p90", "mean waiting", "use",
    "lowest fairness", "resizes", "interruptions",
)  # fmt: skip


def whatif_rows(report: WhatIfReport) -> list[list[str]]:
    """What really happened, the replay of it, and every scenario with its difference to that replay."""
    base = report.baseline.figures
    return [
        _cells(f"{report.policy}, as it was", report.real, None),
        _cells(f"{report.policy}, replayed", base, None),
        *(_cells(each.label, each.figures, base) for each in report.replays),
    ]


def whatif_sentences(report: WhatIfReport) -> Iterator[str]:
    """How far the study can be trusted, and what it found."""
    errors = [f"{name} {_signed(error)}" for name, error in report.calibration.errors.items()]
    yield f"Replayed as it ran, the past comes out with {', '.join(errors)} off."
    if report.calibration.typical is not None:
        yield f"Single jobs end {100 * report.calibration.typical:.1f} % of their time off, taken together."
    yield from (f"{note}." for note in report.notes)
    if report.conclusive:
        yield from (_finding(each, report.baseline) for each in report.replays)
        return
    yield "Nothing is concluded: " + "; ".join(report.doubts) + "."
    for each in report.calibration.deviations:
        replayed = "never" if each.replayed_s is None else f"in {format_duration(each.replayed_s)}"
        yield f"{each.job_id} ended in {format_duration(each.real_s)}, replayed {replayed}: {each.why}."


def whatif_page(report: WhatIfReport) -> str:
    """The study as a page; it loads nothing and may be mailed."""
    facts = [
        ("from", f"{report.since:%Y-%m-%d %H:%M} UTC"), ("to", f"{report.until:%Y-%m-%d %H:%M} UTC"),
        ("jobs", str(report.jobs)), ("devices", str(report.devices)), ("policy", report.policy),
    ]  # fmt: skip
    told = table(("in words",), [[sentence] for sentence in whatif_sentences(report)])
    body = section("What came of it", "Differences are to the replay, not to reality.", _table(report))
    body += section("How far to trust it", "", told)
    title = "The past under other rules"
    return Page(title=title, facts=facts, body=body, data={}, scripts=("kit.js", "theme.js")).html()


def _table(report: WhatIfReport) -> str:
    return table(WHATIF_COLUMNS, whatif_rows(report))


def _cells(label: str, figures: FiguresView, base: FiguresView | None) -> list[str]:
    durations = [
        _duration(getattr(figures, name), None if base is None else getattr(base, name))
        for name in ("completion_mean_s", "completion_p90_s", "waiting_mean_s")
    ]
    use = "–" if figures.use is None else f"{100 * figures.use:.1f} %"
    return [
        label, f"{figures.kept} of {figures.promised}", str(figures.broken), str(figures.refused), *durations, use,
        "–" if figures.fairness is None else f"{figures.fairness:.2f}",
        _count(figures.resizes, None if base is None else base.resizes),
        _count(figures.suspensions, None if base is None else base.suspensions),
    ]  # fmt: skip


def _duration(value: float | None, base: float | None) -> str:
    if value is None:
        return "–"
    return format_duration(value) + (f" ({_signed(value / base - 1)})" if base else "")


def _count(value: int, base: int | None) -> str:
    return str(value) if base is None else f"{value} ({value - base:+d})"


def _finding(each: ReplayView, baseline: ReplayView) -> str:
    changes: Sequence[str] = [
        f"{figure} {_signed(now / was - 1)}"
        for figure, now, was in (
            ("mean completion", each.figures.completion_mean_s, baseline.figures.completion_mean_s),
            ("p90 completion", each.figures.completion_p90_s, baseline.figures.completion_p90_s),
        )
        if now is not None and was
    ]
    kept = f"{each.figures.kept} of {each.figures.promised} promises kept"
    was_kept = f"{baseline.figures.kept} of {baseline.figures.promised} as it ran"
    return f"{each.label}: {', '.join([*changes, f'{kept} ({was_kept})'])}."


def _signed(share: float | None) -> str:
    return "beyond measure" if share is None else f"{100 * share:+.1f} %"
