"""Moments of the past as people ask for them."""

from penstock.core import UnitError, parse_duration, parse_instant
from penstock.wire import RequestError


def past_moment(text: str, now: float) -> float:
    """A date and time, or a duration before ``now``."""
    try:
        return parse_instant(text)
    except UnitError:
        pass
    try:
        return now - parse_duration(text)
    except UnitError:
        raise RequestError(
            f"{text!r} is neither a duration nor a date",
            "how long ago, or when",
            'Try "7d", "12h", "14:30" or "2026-12-01"',
        ) from None
