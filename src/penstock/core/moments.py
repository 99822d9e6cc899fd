"""Days and times of day as people say them: "friday 18:00", "tomorrow 9am", "18:30", "2026-12-01T18:00".

All of them are times of a place, so whoever reads one says which: the result always carries its offset from UTC, and
means the same moment wherever it is read next.
"""

import re
from datetime import datetime, timedelta

from penstock.core.limits import brief

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NEAR = {"today": 0, "tonight": 0, "tomorrow": 1}
_SAID = re.compile(
    r"(?:(?:on\s+|by\s+)?(?P<day>[a-z]{3,}|\d{4}-\d{2}-\d{2}))?"
    r"(?:(?:^|\s+)(?:at\s+)?(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>am|pm)?)?",
    re.IGNORECASE,
)
_DAY = timedelta(days=1)


def resolve_moment(text: str, now: datetime) -> datetime | None:
    """The moment that a text means to somebody whose clock shows ``now`` (a time without an offset, like theirs).

    A day without a time means its end, a time without a day the next time the clock shows it. None for anything else,
    also for a bare number, which may be seconds.
    """
    given = brief(text)
    try:
        return _aware(datetime.fromisoformat(given)) if "T" in given or " " in given else _said(given, now)
    except (ValueError, OverflowError):
        return _said(given, now)


def resolve_past(text: str, now: datetime) -> datetime | None:
    """The moment that a text means to somebody who looks back: a time of day is the last one, a day its beginning."""
    given = brief(text)
    moment, said = resolve_moment(given, now), _SAID.fullmatch(given)
    if moment is None or said is None:
        return moment
    shown = moment.replace(tzinfo=None) - (_DAY if said["hour"] is None else timedelta())
    if shown > now and not (said["day"] or "").startswith(tuple("0123456789")):
        shown -= 7 * _DAY if said["day"] else _DAY
    return _aware(shown)


def _said(text: str, now: datetime) -> datetime | None:
    found = _SAID.fullmatch(text)
    if found is None or not text or (found["day"] is None and found["minute"] is None and found["half"] is None):
        return None
    time = _time_of_day(found["hour"], found["minute"], found["half"]) if found["hour"] else _DAY
    if time is None:
        return None
    if found["day"] is None:
        moment = _midnight(now) + time
        return _aware(moment if moment > now else moment + _DAY)
    return _on(found["day"].lower(), time, now)


def _on(day: str, time: timedelta, now: datetime) -> datetime | None:
    if day[0].isdigit():
        try:
            return _aware(datetime.fromisoformat(day) + time)
        except (ValueError, OverflowError):
            return None
    if day in _NEAR:
        return _aware(_midnight(now) + _NEAR[day] * _DAY + time)
    matching = [number for number, name in enumerate(_WEEKDAYS) if name.startswith(day)]
    if not matching:
        return None
    moment = _midnight(now) + (matching[0] - now.weekday()) % 7 * _DAY + time
    return _aware(moment if moment > now else moment + 7 * _DAY)


def _time_of_day(hour: str, minute: str | None, half: str | None) -> timedelta | None:
    hours, minutes = int(hour), int(minute or 0)
    if half is not None:
        if not 1 <= hours <= 12:
            return None
        hours = hours % 12 + (12 if half.lower() == "pm" else 0)
    return timedelta(hours=hours, minutes=minutes) if hours < 24 and minutes < 60 else None


def _midnight(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def _aware(moment: datetime) -> datetime:
    """With the offset that this machine's time zone has then, unless it has one."""
    return moment if moment.tzinfo else moment.astimezone()
