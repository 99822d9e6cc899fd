"""One job in words and figures: what was promised and is expected, what it uses, how it ended. Pure, as HTML."""

import html
from collections.abc import Iterator
from datetime import datetime

from penstock.core import counted, format_bytes, percent_text
from penstock.web.failure_excerpt import failure_excerpt
from penstock.web.format import PROMISE_TONES, clock, device_time, from_now, number, percent, power, short_clock
from penstock.web.layout import bar_html, tiles_of
from penstock.web.view_models import JobOverview, StepFunction
from penstock.wire import NO_PROGRESS, OVER, JobDetail, promise_words, rounded_up, share_is_guessed, tells_nothing


def planned_end(overview: JobOverview) -> float | None:
    """When it was to end by the plan behind its answer."""
    quote = overview.detail.quote
    moment: datetime | None = quote.finish_at if quote is not None else None
    return None if moment is None else moment.timestamp()


def expected(overview: JobOverview) -> str:
    """The forecast in words."""
    band = overview.band
    if overview.detail.state in OVER:
        return f"It is over: {overview.detail.state}."
    if band is None:
        unknown = speed_is_guessed(overview)
        return "Not known yet: its speed was never measured." if unknown else "No forecast: it is not in the plan yet."
    words = (
        f"Expected to end {from_now(band.likely, overview.now)}, between {clock(band.early)} and {clock(band.late)}."
    )
    if overview.deadline is None:
        return words
    margin = (
        "before" if band.late <= overview.deadline else "perhaps after" if band.early <= overview.deadline else "after"
    )
    return f"{words} That is {margin} its deadline at {clock(overview.deadline)}."


def speed_is_guessed(overview: JobOverview) -> bool:
    quote = overview.detail.quote
    return quote is not None and quote.speed == "guessed"


def forecast_rows(overview: JobOverview) -> list[list[str]]:
    band = overview.band
    rows = [("deadline", overview.deadline), ("planned end when it was answered", planned_end(overview))]
    rows += [("earliest", band.early), ("most likely", band.likely), ("latest", band.late)] if band else []
    return [[what, clock(at)] for what, at in rows]


def goal_text(overview: JobOverview) -> str:
    """What was asked for, with what a late result is worth, and what of that is expected."""
    if not overview.deadline:
        return "best effort, no deadline"
    job = overview.detail
    steps = "".join(f", then worth {percent_text(step.value)} until {clock(step.until)}" for step in job.values)
    told = bool(steps) and job.expected_value is not None
    verb = "got" if job.state in OVER else "expected"
    worth = f"; {verb}: {percent_text(job.expected_value or 0.0)} of its value" if told else ""
    return f"done by {clock(overview.deadline)}{steps}{worth}"


def facts_html(overview: JobOverview) -> str:
    """The job in a few lines."""
    job, quote, progress = overview.detail, overview.detail.quote, overview.detail.progress
    facts = [
        ("Id", job.id),
        ("Tenant", job.tenant),
        ("Submitted", f"{clock(job.submitted_at)} ({from_now(job.submitted_at, overview.now)})"),
    ]
    facts.append(("Goal", goal_text(overview)))
    if job.ended_at is not None:
        facts.append(("Ended", f"{clock(job.ended_at)} ({from_now(job.ended_at, overview.now)})"))
    if settled := promise_words(job):
        facts.append(("Promise", settled))
    if quote is not None:
        facts.append(("Answer" if job.state not in OVER else "Answer at its time", f"{quote.verdict}: {quote.reason}"))
        if quote.device_seconds:
            facts.append(("Planned", f"up to {counted(quote.devices, 'device')}, {device_time(quote.device_seconds)}"))
    if job.state not in OVER:
        facts.append(("Forecast", expected(overview)))
    if job.until is not None:
        best = f", best {number(job.until.best)} at step {job.until.best_step:,}" if job.until.best is not None else ""
        facts.append(("Until", f"{job.until.rule}{best}"))
        if job.state not in OVER:
            facts.append(("Metric says", job.until.words(clock)))
        elif job.reason:
            facts.append(("Outcome", job.reason))
    if progress is not None and progress.step is not None:
        total = progress.total or round(progress.work)
        facts.append(("Progress", f"step {progress.step:,} of {total:,}, loss {number(progress.loss)}"))
    elif tells_nothing(job, overview.now):
        facts.append(("Progress", NO_PROGRESS))
    if job.failures and job.state != "failed":
        facts.append(("Failures", f"{job.failures}. {job.reason}"))
    return f"<dl class='ps-facts'>{''.join(f'<dt>{n}</dt><dd>{html.escape(str(v))}</dd>' for n, v in facts)}</dl>"


def progress_html(overview: JobOverview) -> str:
    share = share_done(overview)
    bar = bar_html(share, "Progress")
    return f"<div class='ps-progress' style='margin-bottom:12px'>{bar}<b>{percent(share)}</b></div>"


def share_done(overview: JobOverview) -> float:
    progress = overview.detail.progress
    if overview.detail.state == "finished":
        return 1.0
    if progress is None or progress.work <= 0 or overview.detail.state in OVER or share_is_guessed(overview.detail):
        last = overview.samples[-1] if overview.samples else None
        return min(1.0, last.step / last.total) if last is not None and last.total else 0.0
    return min(max(1.0 - progress.remaining / progress.work, 0.0), 1.0)


def ending_html(job: JobDetail) -> str:
    """Of a job that did not end well: why, in one line, and the lines of its author's code that led there."""
    if job.state not in ("failed", "declined"):
        return ""
    lines = failure_excerpt(job.tail) if job.state == "failed" else []
    code = f"<pre class='ps-file'>{html.escape(chr(10).join(lines))}</pre>" if lines else ""
    offer = job.quote.counter_offer if job.quote is not None else None
    until = job.quote.offer_until if job.quote is not None else None
    held = f" This offer is held until {clock(until)}: submit the same job by then." if until is not None else ""
    at = clock(rounded_up(offer, 60)) if offer is not None else ""
    advice = f"<p>A deadline at {at} or later could be promised.{held}</p>" if offer is not None else ""
    diagnosis = _diagnosis_html(job) if job.state == "failed" else ""
    title = "Why it failed" if job.state == "failed" else "Why it was refused"
    return (
        f"<section class='ps-card ps-ending' aria-label='{title}'><h2>{title}</h2>"
        f"<p class='ps-verdict'>{html.escape(job.reason or 'no reason was told')}</p>{diagnosis}{code}{advice}"
        "</section>"
    )


def _diagnosis_html(job: JobDetail) -> str:
    """What the doctor found: the cause, what to do about it, and how sure that is."""
    if job.diagnosis is None or not job.diagnosis.cause:
        return ""
    found = job.diagnosis.as_diagnosis()
    sure = f" ({found.confidence:.0%} sure)" if found.known else ""
    lines = [f"Cause: {found.headline}{sure}", f"What to do: {found.fix}" if found.fix else ""]
    return "".join(f"<p class='ps-diagnosis'>{html.escape(line)}</p>" for line in lines if line)


def notices_html(job: JobDetail) -> str:
    """What is seen in its run now: a worker that is slow or stuck, a loss that went wrong."""
    if not job.notices:
        return ""
    rows = "".join(f"<p>{html.escape(notice)}</p>" for notice in job.notices)
    return f"<section class='ps-card' aria-label='Seen in its run'><h2>Seen in its run</h2>{rows}</section>"


def tiles_html(overview: JobOverview) -> str:
    """When it ends, what was promised, and what its processes use, side by side."""
    return tiles_of([*_promise_tiles(overview), *usage_tiles(overview.detail)])


def _promise_tiles(overview: JobOverview) -> Iterator[tuple[str, str, str]]:
    job, band = overview.detail, overview.band
    if job.state not in OVER:
        left = from_now(band.likely, overview.now) if band else "its speed is not measured yet"
        yield "Expected end", short_clock(band.likely) if band else "not known yet", left
    if overview.deadline is not None:
        yield (
            "Deadline",
            short_clock(overview.deadline),
            _promise_html(job),
        )
    if job.state not in OVER:
        numbers = ", ".join(map(str, job.devices))
        yield "Devices", str(len(job.devices)), f"number {numbers}" if numbers else "none held"


def _promise_html(job: JobDetail) -> str:
    """What was promised, or what has become of it."""
    told = html.escape(promise_words(job) or (job.quote.verdict if job.quote else "not answered"))
    tone = PROMISE_TONES.get(job.promise)
    return f"<span class='ps-badge ps-{tone}'>{told}</span>" if tone else told


def usage_tiles(job: JobDetail) -> Iterator[tuple[str, str, str]]:
    """Processor, memory and GPU: now while it runs, else the most it used."""
    used = job.usage
    if used is None:
        return
    running = job.state == "running"
    cpu, most_cpu = (f"{value:.0f} %" for value in (used.cpu_percent, used.peak_cpu_percent))
    memory, most_memory = format_bytes(used.memory_bytes), format_bytes(used.peak_memory_bytes)
    yield "CPU", cpu if running else most_cpu, f"at most {most_cpu}" if running else "at most"
    allowed = f" of {format_bytes(used.memory_limit_bytes)} allowed" if used.memory_limit_bytes else ""
    yield "Memory", memory if running else most_memory, f"at most {most_memory if running else ''}{allowed}".strip()
    if used.device_percent is not None and running:
        yield "GPU", percent(used.device_percent / 100), "busy, mean of its devices"
    if used.peak_device_memory_bytes is not None:
        now_held = (used.device_memory_bytes or 0) if running else used.peak_device_memory_bytes
        yield "GPU memory", format_bytes(now_held), f"at most {format_bytes(used.peak_device_memory_bytes)}"
    if used.power_w is not None and running:
        yield "Power", power(used.power_w), "of its devices"


def widths_of(overview: JobOverview) -> StepFunction:
    """Devices held over time, with the gaps."""
    steps: list[tuple[float, float]] = []
    for stint in overview.detail.history:
        since = stint.since.timestamp()
        if steps and since - steps[-1][0] < 1e-6:
            steps.pop()
        steps.append((since, len(stint.devices)))
        if stint.until is not None:
            steps.append((stint.until.timestamp(), 0))
    if steps and steps[-1][1]:
        steps.append((overview.now, steps[-1][1]))
    return tuple(steps)


def story_html(overview: JobOverview) -> str:
    """Newest first, so that what matters now is on top."""
    now = overview.story.now
    first = f"<li><time>now</time><span>{html.escape(now)}</span></li>" if now else ""
    rest = "".join(
        f"<li><time datetime='{note.at.isoformat()}'>{clock(note.at)}</time><span>{html.escape(note.text)}</span></li>"
        for note in reversed(overview.story.entries)
    )
    return f"<ol class='ps-story' reversed>{first}{rest}</ol>"
