"""A period on the live platform as one page for people: the same frame as the comparison of policies."""

from collections.abc import Iterator, Sequence
from html import escape

from penstock.core import format_duration
from penstock.simulate import Markup, Page, section, table
from penstock.wire import DayView, PeriodReport, SpreadView, TenantView

_HEIGHT = 150
_WIDTH = 1000


def report_page(report: PeriodReport) -> str:
    """The page as text; it loads nothing and may be mailed."""
    whose = f" of {report.tenant}" if report.tenant else ""
    title = f"What became of the promises{whose}"
    body = "".join((_words(report), _over_time(report), _tenants(report), _broken(report), _trouble(report)))
    facts = [
        ("from", f"{report.since:%Y-%m-%d %H:%M} UTC"), ("to", f"{report.until:%Y-%m-%d %H:%M} UTC"),
        ("jobs", str(report.jobs.there)), ("device-hours", _hours(report.device_seconds)),
    ]  # fmt: skip
    return Page(title=title, facts=facts, body=body, data={}, scripts=("kit.js", "theme.js")).html()


def sentences(report: PeriodReport) -> Iterator[tuple[str, str]]:
    """The report in words: headlines with what is behind them. The terminal prints the same."""
    yield _promise_words(report)
    yield "Use", _use_words(report)
    yield "Failures", _failure_words(report)
    yield "Resizes", _resize_words(report)
    yield "Forecasts", _forecast_words(report)


def _promise_words(report: PeriodReport) -> tuple[str, str]:
    p = report.promises
    ratio = p.kept_ratio
    title = "No promise fell due" if ratio is None else f"{100 * ratio:.1f}% of the promises were kept"
    text = f"{p.kept} kept, {p.broken} broken, {p.given_up} given up, {p.open} still open. "
    text += f"{p.made} new ones were made and {p.refused} jobs refused in advance."
    return title, text


def _use_words(report: PeriodReport) -> str:
    share = report.device_seconds / report.capacity_device_seconds if report.capacity_device_seconds else 0.0
    jobs = report.jobs
    text = f"{_hours(report.device_seconds)} device-hours, {100 * share:.1f}% of what the devices could give. "
    text += f"{jobs.submitted} jobs came, {jobs.finished} finished, {jobs.failed} failed, {jobs.cancelled} were "
    text += f"cancelled, {jobs.active} are active."
    if report.queue_wait.count:
        text += f" Half of those that started had waited less than {_time(report.queue_wait.p50_s)}."
    return text


def _failure_words(report: PeriodReport) -> str:
    f = report.failures
    if not f.count and not f.workers_lost:
        return "None."
    reasons = ", ".join(f"{one.count} x {one.reason}" for one in f.by_reason)
    text = (
        f"{f.count} runs failed{f' ({reasons})' if reasons else ''} and {f.workers_lost} workers died under runs that "
    )
    text += f"went on. At least {f.lost_steps} steps were done twice"
    return text + (f"; half of the restarts took less than {_time(f.downtime.p50_s)}." if f.downtime.count else ".")


def _resize_words(report: PeriodReport) -> str:
    r = report.resizes
    if not r.count:
        return "None."
    text = f"{r.count}, {r.in_place} of them in place"
    return text + (f"; {_pauses(r.pauses)}." if r.pauses.count else ".")


def _pauses(pauses: SpreadView) -> str:
    return (
        f"training stood still for {_time(pauses.p50_s)} in the middle, {_time(pauses.p95_s)} at the 95th percentile "
        f"and {_time(pauses.total_s)} in all"
    )


def _forecast_words(report: PeriodReport) -> str:
    f = report.forecast
    if f.median_error is None or f.mean_absolute_error is None or f.worst_error is None:
        return "No job finished of which an end was expected."
    return (
        f"Over {f.jobs} jobs that finished, the end was {100 * f.mean_absolute_error:.0f}% of a job's life "
        f"away from what was first expected on average (median {100 * f.median_error:+.0f}%, worst "
        f"{100 * f.worst_error:+.0f}%; plus means later)."
    )


def _words(report: PeriodReport) -> str:
    items = "".join(f"<li><h3>{escape(title)}</h3><p>{escape(text)}</p></li>" for title, text in sentences(report))
    return section("In a few words", "", f"<ul class='findings'>{items}</ul>")


def _over_time(report: PeriodReport) -> str:
    capacity = report.capacity_device_seconds / max(len(report.stretches), 1)
    rows = [
        [
            f"{one.since:%Y-%m-%d %H:%M}",
            f"{_share(one, capacity):.1%}",
            str(one.kept),
            str(one.broken),
            str(one.failures),
        ]
        for one in report.stretches
    ]
    head = ("from", "devices held", "promises kept", "broken", "failed runs")
    as_table = f"<details><summary>The same as a table</summary>{table(head, rows)}</details>"
    why = "Share of the devices that was held; a red mark is a broken promise, a dot a failed run."
    return section("Over time", why, _bars(report.stretches, capacity) + as_table)


def _when(one: DayView) -> str:
    return f"{one.since:%Y-%m-%d %H:%M}"


def _share(one: DayView, capacity: float) -> float:
    return one.device_seconds / capacity if capacity else 0.0


def _bars(stretches: Sequence[DayView], capacity: float) -> str:
    pitch = _WIDTH / max(len(stretches), 1)
    parts = [f"<line class='axis' x1='0' x2='{_WIDTH}' y1='{_HEIGHT}' y2='{_HEIGHT}'/>"]
    for place, one in enumerate(stretches):
        high = min(_share(one, capacity), 1.0) * (_HEIGHT - 24)
        x = place * pitch
        title = (
            f"{one.since:%Y-%m-%d %H:%M}: {_share(one, capacity):.0%} held, {one.broken} broken, {one.failures} failed"
        )
        parts.append(
            f"<g><title>{escape(title)}</title><rect x='{x + 2:.1f}' y='{_HEIGHT - high:.1f}' width='{pitch - 4:.1f}' "
            f"height='{max(high, 0.5):.1f}' rx='3' fill='var(--p0)'/>{_marks(one, x + pitch / 2)}</g>"
        )
    return (
        f"<div class='chart'><svg viewBox='0 0 {_WIDTH} {_HEIGHT + 4}' role='img' aria-label='Share of devices "
        f"held over time'>{''.join(parts)}</svg></div>"
    )


def _marks(one: DayView, x: float) -> str:
    broken = f"<rect x='{x - 5:.1f}' y='2' width='10' height='10' rx='2' fill='var(--late)'/>" if one.broken else ""
    return broken + (f"<circle cx='{x:.1f}' cy='18' r='3.5' fill='var(--unfinished)'/>" if one.failures else "")


def kilowatt_hours(one: TenantView) -> str:
    """With a mark where it is not a meter's."""
    if one.energy_j is None:
        return "unknown"
    return f"{'~' if one.energy_estimated else ''}{one.energy_j / 3.6e6:,.3g}"


def _tenants(report: PeriodReport) -> str:
    most = max((one.device_seconds for one in report.tenants), default=0.0) or 1.0
    rows = [
        [one.tenant, str(one.jobs), _bar(one.device_seconds / most), _hours(one.device_seconds),
         kilowatt_hours(one), str(one.kept), str(one.broken),
         str(one.refused)]
        for one in report.tenants
    ]  # fmt: skip
    head = ("tenant", "jobs", "", "device-hours", "kWh", "kept", "broken", "refused")
    why = "Energy is what the runs told; with a ~ it is estimated, in part at least."
    return section("Who used what", why, table(head, rows, "Use by tenant"))


def _bar(share: float) -> Markup:
    return Markup(
        "<svg width='120' height='10' aria-hidden='true'><rect width='120' height='10' rx='5' fill='var(--grid)'/>"
        f"<rect width='{120 * share:.1f}' height='10' rx='5' fill='var(--p0)'/></svg>"
    )


def _broken(report: PeriodReport) -> str:
    if not report.broken:
        return ""
    rows = [
        [f"{one.job_id} {one.name}", one.tenant, f"{one.deadline:%Y-%m-%d %H:%M}",
         "never finished" if one.late_s is None else _time(one.late_s), one.why]
        for one in report.broken
    ]  # fmt: skip
    return section("Broken promises", "", table(("job", "tenant", "deadline", "late by", "what the log knows"), rows))


def _trouble(report: PeriodReport) -> str:
    if not report.failures.by_reason:
        return ""
    rows = [[one.reason, str(one.count), str(one.retried)] for one in report.failures.by_reason]
    return section("Failed runs", "", table(("reason", "runs", "tried again"), rows))


def _hours(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:,.2f}" if hours < 10 else f"{hours:,.0f}"


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else format_duration(seconds)
