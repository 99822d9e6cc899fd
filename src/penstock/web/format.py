"""Moments, amounts and promises the way people read them on a page."""

import time
from datetime import datetime, tzinfo
from functools import lru_cache

from penstock.core import LATEST, format_duration
from penstock.web.time_zone import viewer_zone
from penstock.wire import QuoteView

WAITING = ("blocked", "preparing", "asking", "pending", "suspended")
TONES = {
    "running": "good", "finishing": "good", "finished": "calm", "failed": "bad", "declined": "bad",
    "cancelled": "mute", "paused": "warn", "suspended": "warn", "pending": "wait", "asking": "wait",
    "preparing": "wait", "blocked": "wait",
    "promised": "good", "best effort": "calm", "deferred": "warn", "refused": "bad",
    "up": "good", "lost": "bad", "drained": "warn", "draining": "warn",
}  # fmt: skip
"""How a state feels, for its colour; the word itself is always beside it."""
PROMISE_TONES = {"kept": "good", "broken": "bad"}


def clock(at: float | datetime | None) -> str:
    """Time of day where the viewer is, with the date if it is not today's."""
    if at is None:
        return "–"
    zone = viewer_zone()
    today = datetime.fromtimestamp(time.time(), zone).date().toordinal()
    return _clock(int(at.timestamp() if isinstance(at, datetime) else at), zone, today)


@lru_cache(maxsize=4096)
def _clock(at: int, zone: tzinfo, today: int) -> str:
    moment = datetime.fromtimestamp(min(max(at, 0), LATEST), zone)
    return moment.strftime("%H:%M:%S" if moment.toordinal() == today else "%Y-%m-%d %H:%M")


def short_clock(at: float | datetime | None) -> str:
    """The same to the minute, for columns of a table."""
    text = clock(at)
    return text[:-3] if text.count(":") == 2 else text


def from_now(at: float | datetime | None, now: float) -> str:
    """ "3m ago", "in 2h", or a dash."""
    if at is None:
        return "–"
    seconds = now - (at.timestamp() if isinstance(at, datetime) else at)
    return f"{format_duration(seconds)} ago" if seconds >= 0 else f"in {format_duration(-seconds)}"


def device_time(seconds: float) -> str:
    """ "2.4 device-hours"; short ones in minutes or seconds."""
    for size, unit in ((3600.0, "hours"), (60.0, "minutes")):
        if seconds >= size:
            return f"{seconds / size:,.1f} device-{unit}"
    return f"{seconds:.0f} device-seconds"


def energy(joules: float) -> str:
    if joules < 360.0:
        return f"{joules:.0f} J"
    return f"{joules / 3.6e6:,.2f} kWh" if joules >= 3.6e5 else f"{joules / 3600:,.1f} Wh"


def power(watts: float) -> str:
    return f"{watts / 1e3:,.1f} kW" if watts >= 1e3 else f"{watts:.0f} W"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def number(value: float | None, digits: int = 4) -> str:
    return "–" if value is None else f"{value:.{digits}g}"


def promise(quote: QuoteView | None) -> str:
    """The heart of a quote in a word; the deadline stands beside it."""
    return "not answered yet" if quote is None else quote.verdict
