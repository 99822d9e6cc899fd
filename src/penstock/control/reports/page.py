"""A period on the live platform as one page for people: the same frame as the comparison of policies."""

from collections.abc import Iterator, Sequence
from html import escape

from penstock.core import counted, format_duration
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
    text = f"{p.kept} kept, {p.broken} broken, {p.given_up} given up, {p.failed} failed by themselves, "
    text += f"{p.open} still open. "
    text += f"New ones: {p.made}. Refused in advance: {counted(p.refused, 'job')}."
    return title, text


def _use_words(report: PeriodReport) -> str:
    share = report.device_seconds / report.capacity_device_seconds if report.capacity_device_seconds else 0.0
    jobs = report.jobs
    text = f"{_hours(report.device_seconds)} device-hours, {100 * share:.1f}% of what the devices could give. "
    text += f"{counted(jobs.submitted, 'job')} came: {jobs.finished} finished, {jobs.failed} failed, "
    text += f"{jobs.cancelled} cancelled, {jobs.active} active."
    if report.queue_wait.count:
        text += f" Half of those that started had waited less than {_time(report.queue_wait.p50_s)}."
    return text


def _failure_words(report: PeriodReport) -> str:
    f = report.failures
    if not f.count and not f.workers_lost:
        return "None."
    reasons = ", ".join(f"{failure.count} x {failure.reason}" for failure in f.by_reason)
    text = f"{counted(f.count, 'run')} failed{f' ({reasons})' if reasons else ''}; "
    text += f"{counted(f.workers_lost, 'worker')} died under runs that went on. "
    text += f"At least {f.lost_steps} steps were done twice"
    return text + (f"; half of the restarts took less than {_time(f.downtime.p50_s)}." if f.downtime.count else ".")


def _resize_words(report: PeriodReport) -> str:
    r = report.resizes
    if not r.count:
        return "None."
    text = f"{r.count}, {r.in_place} of them in place"
    return text + (f"; {_pauses(r.pauses)}." if r.pauses.count else ".")


def _pauses(pauses: SpreadView) -> str:
    return (
        f"training stood still for {_time(pauses.p50_s)} at the median, {_time(pauses.p95_s)} at the 95th percentile "
        f"and {_time(pauses.total_s)} in all"
    )


def _forecast_words(report: PeriodReport) -> str:
    f = report.forecast
    if f.median_error is None or f.mean_absolute_error is None or f.worst_error is None:
        return "No job finished of which an end was expected." + _unknown_words(f.unknown)
    return (
        f"Over {counted(f.jobs, 'job')} that finished, the end was {100 * f.mean_absolute_error:.0f}% of a job's life "
        f"away from what was first expected on average (median {100 * f.median_error:+.0f}%, worst "
        f"{100 * f.worst_error:+.0f}%; plus means later)." + _unknown_words(f.unknown)
    )


def _unknown_words(jobs: int) -> str:
    return f" Of {jobs} more nobody said when, because their speed was not known." if jobs else ""


def _words(report: PeriodReport) -> str:
    items = "".join(f"<li><h3>{escape(title)}</h3><p>{escape(text)}</p></li>" for title, text in sentences(report))
    return section("In a few words", "", f"<ul class='findings'>{items}</ul>")


def _over_time(report: PeriodReport) -> str:
    capacity = report.capacity_device_seconds / max(len(report.stretches), 1)
    rows = [
        [
            _when(interval),
            f"{_share(interval, capacity):.1%}",
            str(interval.kept),
            str(interval.broken),
            str(interval.failures),
        ]
        for interval in report.stretches
    ]
    head = ("from", "devices held", "promises kept", "broken", "failed runs")
    as_table = f"<details><summary>The same as a table</summary>{table(head, rows)}</details>"
    why = "Share of the devices that was held; a red mark is a broken promise, a dot a failed run."
    return section("Over time", why, _bars(report.stretches, capacity) + as_table)


def _when(interval: DayView) -> str:
    return f"{interval.since:%Y-%m-%d %H:%M}"


def _share(interval: DayView, capacity: float) -> float:
    return interval.device_seconds / capacity if capacity else 0.0


def _bars(stretches: Sequence[DayView], capacity: float) -> str:
    pitch = _WIDTH / max(len(stretches), 1)
    parts = [f"<line class='axis' x1='0' x2='{_WIDTH}' y1='{_HEIGHT}' y2='{_HEIGHT}'/>"]
    for position, interval in enumerate(stretches):
        high = min(_share(interval, capacity), 1.0) * (_HEIGHT - 24)
        x = position * pitch
        title = f"{_when(interval)}: {_share(interval, capacity):.0%} held, "
        title += f"{interval.broken} broken, {interval.failures} failed"
        parts.append(
            f"<g><title>{escape(title)}</title><rect x='{x + 2:.1f}' y='{_HEIGHT - high:.1f}' width='{pitch - 4:.1f}' "
            f"height='{max(high, 0.5):.1f}' rx='3' fill='var(--p0)'/>{_marks(interval, x + pitch / 2)}</g>"
        )
    return (
        f"<div class='chart'><svg viewBox='0 0 {_WIDTH} {_HEIGHT + 4}' role='img' aria-label='Share of devices "
        f"held over time'>{''.join(parts)}</svg></div>"
    )


def _marks(interval: DayView, x: float) -> str:
    square = f"<rect x='{x - 5:.1f}' y='2' width='10' height='10' rx='2' fill='var(--late)'/>"
    dot = f"<circle cx='{x:.1f}' cy='18' r='3.5' fill='var(--unfinished)'/>"
    return (square if interval.broken else "") + (dot if interval.failures else "")


def kilowatt_hours(tenant: TenantView) -> str:
    """With a mark where it is not a meter's."""
    if tenant.energy_j is None:
        return "unknown"
    return f"{'~' if tenant.energy_estimated else ''}{tenant.energy_j / 3.6e6:,.3g}"


def _tenants(report: PeriodReport) -> str:
    most = max((tenant.device_seconds for tenant in report.tenants), default=0.0) or 1.0
    rows = [
        [tenant.tenant, str(tenant.jobs), _bar(tenant.device_seconds / most), _hours(tenant.device_seconds),
         kilowatt_hours(tenant), str(tenant.kept), str(tenant.broken),
         str(tenant.refused), "" if tenant.fairness is None else f"{tenant.fairness:.2f}"]
        for tenant in report.tenants
    ]  # fmt: skip
    head = ("tenant", "jobs", "", "device-hours", "kWh", "kept", "broken", "refused", "fairness")
    why = (
        "Energy is what the runs told; with a ~ it is estimated, in part at least. Fairness is device-time used over "
        "deserved, of the last day."
    )
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
        [f"{promise.job_id} {promise.name}", promise.tenant, f"{promise.deadline:%Y-%m-%d %H:%M}",
         "never finished" if promise.late_s is None else _time(promise.late_s), promise.why]
        for promise in report.broken
    ]  # fmt: skip
    return section("Broken promises", "", table(("job", "tenant", "deadline", "late by", "what the log knows"), rows))


def _trouble(report: PeriodReport) -> str:
    if not report.failures.by_reason:
        return ""
    rows = [[failure.reason, str(failure.count), str(failure.retried)] for failure in report.failures.by_reason]
    return section("Failed runs", "", table(("reason", "runs", "tried again"), rows))


def _hours(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:,.2f}" if hours < 10 else f"{hours:,.0f}"


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else format_duration(seconds)
