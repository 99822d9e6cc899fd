"""Moments, promises and progress the way people read them."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.core import counted, format_bytes, format_duration, percent_text
from penstock.wire import OVER, JobPhase, promise_words, rounded_up, share_is_guessed

if TYPE_CHECKING:
    from penstock.wire import ArrayView, JobDetail, JobView, QuoteView

BAR_CELLS = 12
_DOUBTS = {
    "guessed": "its speed is a guess, so when it will be done is not known yet: `penstock quote --measure` measures it",
    "predicted": "its speed is partly predicted: `penstock quote --measure` measures it",
}


def ago(moment: datetime | None) -> str:
    """ "3m ago", "in 2h", "now" to a second, or a dash."""
    if moment is None:
        return "-"
    seconds = round((datetime.now(UTC) - moment).total_seconds())
    if seconds == 0:
        return "now"
    return f"{format_duration(seconds)} ago" if seconds > 0 else f"in {format_duration(-seconds)}"


def clock(moment: datetime | None) -> str:
    """Local time of day, with the date if it is not today."""
    if moment is None:
        return "-"
    local = moment.astimezone()
    return local.strftime("%H:%M:%S" if local.date() == datetime.now().astimezone().date() else "%Y-%m-%d %H:%M")


def deadline_line(deadline: datetime, settled: str | None = None) -> str:
    """A deadline as it was understood, in the reader's own time zone, which is named; how far it is, or how it went."""
    beside = f" ({ago(deadline)})" if settled is None else f": {settled}" if settled else ""
    return f"deadline {deadline.astimezone().strftime('%A %Y-%m-%d %H:%M:%S %Z')}{beside}"


def promise_of(job: "JobView") -> str:
    """What was promised in a word, or what has become of it."""
    return promise_words(job).removeprefix("promise ") or (job.quote.verdict if job.quote is not None else "-")


def value_lines(job: "JobDetail") -> list[str]:
    """What a soft job is worth after its deadline, and what it will probably be worth."""
    if not job.values:
        return []
    steps = ", ".join(f"{percent_text(step.value)} until {clock(step.until)}" for step in job.values)
    lines = [f"then worth {steps}, then nothing"]
    if job.expected_value is not None:
        lines.append(f"{'got' if job.state in OVER else 'expected'}: {percent_text(job.expected_value)} of its value")
    return lines


def answer_lines(job: "JobDetail") -> list[str]:
    """What a job is told as long as that holds: of one that is over only a refusal, of one that is paused nothing."""
    if job.quote is None or job.state == "paused" or (job.state in OVER and job.state != "declined"):
        return []
    runs = job.quote.verdict == "deferred" and bool(job.devices)
    return [*quote_lines(job.quote), *(["final answer when it ends, or at its deadline"] if runs else [])]


def usage_lines(job: "JobDetail") -> list[str]:
    """What a job uses now, what it may use, and whether anybody sees to that."""
    lines = []
    limits = {**job.spec.get("limits", {})}
    if limits:
        told = [f"{limits['memory']} of memory"] if "memory" in limits else []
        told += [f"{counted(limits['cpus'], 'processor')}"] if "cpus" in limits else []
        lines.append(f"limits: {' and '.join(told)} for each device")
    if (used := job.usage) is None:
        return lines
    memory = f"{format_bytes(used.memory_bytes)} of memory"
    if used.memory_limit_bytes is not None:
        memory += f" of {format_bytes(used.memory_limit_bytes)} at most"
    memory += f", {format_bytes(used.peak_memory_bytes)} at its peak"
    verb = "used" if job.state in OVER else "uses"
    lines.append(f"{verb} {used.cpu_percent / 100:.1f} processors, {memory}")
    return [*lines, used.unlimited] if used.unlimited else lines


def until_lines(job: "JobDetail") -> list[str]:
    """What it trains until, how far that is, and how sure its end is."""
    if (until := job.until) is None:
        return []
    best = f": best {until.best:.4g} at step {until.best_step}" if until.best is not None else ""
    lines = [f"until {until.rule}{best}"]
    return lines if job.state in OVER else [*lines, f"its metric says {until.words(clock)}"]


def quote_lines(quote: "QuoteView") -> list[str]:
    """What a person is told, line by line."""
    lines = [f"{quote.verdict}: {quote.reason}"]
    if quote.forecast_only:
        lines.append("a forecast, not a promise: the cluster's own queue decides when devices are free")
    if quote.speed in _DOUBTS:
        lines.append(_DOUBTS[quote.speed])
    if quote.expected_at is not None:
        lines.append(f"expected to be done at {clock(quote.expected_at)} ({ago(quote.expected_at)})")
    if quote.finish_at is not None:
        devices = "1 device" if quote.devices == 1 else f"up to {quote.devices} devices"
        lines.append(f"planned to be done by {clock(quote.finish_at)} on {devices}, if need be")
        lines.append(f"device time: {format_duration(quote.device_seconds)}")
    if quote.counter_offer is not None:
        lines.append(f"earliest deadline that can be promised now: {clock(rounded_up(quote.counter_offer))}")
    if quote.counter_offer is not None and quote.offer_until is not None:
        until = f"{clock(quote.offer_until)} ({ago(quote.offer_until)})"
        lines.append(f"this offer is held until {until}: submit the same job by then with")
        deadline = rounded_up(quote.counter_offer).astimezone()
        lines.append(f"  --deadline {deadline.strftime('%Y-%m-%dT%H:%M:%S')}")
    if quote.answer_by is not None:
        lines.append(f"final answer by {clock(quote.answer_by)}")
    return lines


def state_counts(array: "ArrayView") -> str:
    """ "320 finished, 8 running, 172 pending": in the order in which a job passes through them."""
    order = [phase.value for phase in JobPhase]
    return ", ".join(f"{array.states[state]} {state}" for state in sorted(array.states, key=order.index))


def share_done(job: "JobDetail") -> float:
    """Between 0 and 1; of a job that ended too soon, as far as it told."""
    if job.state == "finished":
        return 1.0
    if job.progress is None or job.progress.work <= 0 or share_is_guessed(job):
        return 0.0
    if job.state in OVER:
        return min((job.progress.step or 0) / (job.progress.total or job.progress.work), 1.0)
    return min(max(1.0 - job.progress.remaining / job.progress.work, 0.0), 1.0)


def bar(share: float) -> str:
    full = round(share * BAR_CELLS)
    return "█" * full + "░" * (BAR_CELLS - full) + f" {100 * share:3.0f}%"


def due(job: "JobView") -> str:
    """When it is expected to be done."""
    if job.quote is None or job.state in OVER:
        return ago(job.expected_at)
    if job.quote.speed == "guessed" and job.expected_at is None:
        return "not known yet"
    return ago(job.expected_at or job.quote.finish_at)
