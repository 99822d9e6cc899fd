"""The quantities of a job file as people write them, from YAML, JSON, Python or a flag, and back into text.

Every reader takes whatever a parser may hand over and either returns a plain value or raises an
:class:`~penstock.core.InputError` that says what was given, what is allowed and what to try. None of them knows which
key it reads: the place is added by whoever knows it.
"""

import math
import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from reprlib import Repr

from penstock.core import (
    MOST_SECONDS,
    MOST_STEPS,
    InputError,
    UnitError,
    UnknownNameError,
    brief,
    parse_deadline,
    parse_duration,
    resolve_moment,
)

MOST = MOST_STEPS
"""No count of anything in a job file is larger: beyond it, floats no longer count in ones."""
MOST_WORK = 10**12
"""Steps or epochs of one job: at a thousand steps a second it would train for thirty years."""

MOST_MEMBERS = 1000
"""Jobs of one array: all of them are taken in by one commit."""

_MULTIPLES = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9}
_COUNT = re.compile(r"(\d+(?:_\d+)*(?:\.\d+)?(?:e\d+)?)\s*([kmb]?)", re.IGNORECASE)
_RANGE = re.compile(r"([^.\s]*)\s*\.\.\s*([^.\s]*)")
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s*%")
_INDICES = re.compile(r"(\d{1,9})\s*\.\.\s*(\d{1,9})")
_WORK = re.compile(r"(.*?[\d\skmb])\s*([a-z]*)", re.IGNORECASE | re.DOTALL)
_CLOCK = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))

_DIGITS = re.compile(r"\d")
_A_DEADLINE = "a duration from submission, or a day and a time"
_FOR_EXAMPLE = 'Try "6h", "friday 18:00" or "2026-12-01T18:00"'

_repr = Repr()
_repr.maxstring = _repr.maxother = 60
_repr.maxlist = _repr.maxdict = 4
_repr.maxlevel = 2


def shown(value: object) -> str:
    """A value as it appears in a complaint: quoted like Python, shortened."""
    try:
        return _repr.repr(value)
    except ValueError:
        return "a number of thousands of digits"


class WorkUnit(StrEnum):
    """What work is counted in."""

    STEPS = "steps"
    EPOCHS = "epochs"


_WORK_UNITS = {
    "": WorkUnit.STEPS,
    "step": WorkUnit.STEPS,
    "steps": WorkUnit.STEPS,
    "iterations": WorkUnit.STEPS,
    "epoch": WorkUnit.EPOCHS,
    "epochs": WorkUnit.EPOCHS,
}


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount of work: "30 epochs", "10_000 steps". A step is one update of the model with one global batch."""

    value: float
    unit: WorkUnit

    def __str__(self) -> str:
        return f"{self.value:.15g} {self.unit}"


def read_count(value: object) -> int:
    """A whole number of at least 1: 64, "10_000", "10k", "1.5M"."""
    count = _number(value)
    if count is None or count != math.floor(count) or count < 1:
        raise UnitError(f"{shown(value)} is not a count", "a whole number of at least 1", 'Try 64, "10_000" or "10k"')
    return int(count)


def read_whole(value: object) -> int:
    """A whole number of at least 0."""
    count = _number(value)
    if count is None or count != math.floor(count):
        raise UnitError(f"{shown(value)} is not a whole number", "0 or more", "Try 0 or 3")
    return int(count)


def read_duration(value: object) -> float:
    """Positive seconds: "6h", "1h30m", 90."""
    seconds = _seconds(value)
    if seconds <= 0:
        raise UnitError(f"{shown(value)} is no time at all", "a duration longer than 0", 'Try "90s", "6h" or "1h30m"')
    return seconds


def read_duration_or_zero(value: object) -> float:
    """Seconds, of which there may be none: "0s"."""
    return _seconds(value)


def read_range(value: object) -> tuple[int, int | None]:
    """The least and the most in "2..8", "2..", "..8", "4" or 4; no most is None."""
    found = _RANGE.fullmatch(brief(value)) if isinstance(value, str) else None
    try:
        if found is None:
            return read_count(value), read_count(value)
        low, high = found[1], found[2]
        if not (low or high):
            raise UnitError("")
        return read_count(low or 1), read_count(high) if high else None
    except UnitError:
        raise UnitError(
            f"{shown(value)} is not a range", "a count, or LEAST..MOST with either left out", 'Try "2..8", "2.." or 4'
        ) from None


def read_array(value: object) -> range:
    """The indices of a job array: "1..500" is 1 to 500, both included."""
    found = _INDICES.fullmatch(brief(value)) if isinstance(value, str) else None
    indices = range(int(found[1]), int(found[2]) + 1) if found else range(0)
    if not 1 <= len(indices) <= MOST_MEMBERS:
        raise UnitError(
            f"{shown(value)} is not a job array", f"FIRST..LAST with at most {MOST_MEMBERS} indices", 'Try "1..500"'
        )
    return indices


def read_amount(value: object) -> Amount:
    """Work in steps or epochs; a bare number is steps."""
    found = _WORK.fullmatch(brief(value)) if isinstance(value, str) else None
    number, unit = (found[1].strip(), found[2].lower()) if found else (value, "")
    count = _number(number)
    if not count:
        raise UnitError(
            f"{shown(value)} is not an amount of work",
            "a positive number of steps or epochs",
            'Try "30 epochs" or "10_000 steps"',
        )
    if count > MOST_WORK:
        raise UnitError(
            f"{shown(value)} is more work than any job has", f"at most {MOST_WORK:_} steps or epochs",
            "Check the unit and the number of zeros",
        )  # fmt: skip
    if unit not in _WORK_UNITS:
        raise UnknownNameError.of("unit of work", unit, list(WorkUnit), 'Try "30 epochs" or "10_000 steps"')
    if _WORK_UNITS[unit] is WorkUnit.STEPS and count != math.floor(count):
        raise UnitError(f"{shown(value)} is not a whole number of steps", "whole steps; epochs may be fractions")
    return Amount(count, _WORK_UNITS[unit])


def read_deadline(value: object) -> str:
    """A deadline as text: "6h" counts from submission; days and times are those of this machine's time zone."""
    text = _deadline_text(value)
    if text is None:
        raise UnitError(f"{shown(value)} is not a deadline", _A_DEADLINE, _FOR_EXAMPLE)
    moment = resolve_moment(text, datetime.now())
    if moment is not None:
        text = moment.isoformat(timespec="auto" if moment.second or moment.microsecond else "minutes")
    elif not _DIGITS.match(text):
        raise UnitError(f"{shown(value)} is not a deadline", _A_DEADLINE, _FOR_EXAMPLE)
    if parse_deadline(text, 0.0) <= 0:
        raise UnitError(f"a deadline of {shown(value)} is over at once", "a time after submission", 'Try "6h"')
    return text


def read_percent(value: object) -> float:
    """The share that a percentage means: "50%" and "50 %" are a half."""
    found = _PERCENT.fullmatch(brief(value)) if isinstance(value, str) else None
    if found is None or float(found[1]) > 100:
        raise UnitError(f"{shown(value)} is not a percentage", "0% to 100%, with the sign", 'Try "50%"')
    return float(found[1]) / 100


def duration_text(seconds: float) -> str:
    """The shortest exact text: "1h30m", "0.25s"; the inverse of :func:`read_duration`."""
    if seconds != math.floor(seconds) or seconds == 0:
        return f"{seconds:g}s" if float(f"{seconds:g}") == seconds else f"{seconds!r}s"
    rest, parts = int(seconds), ""
    for unit, size in _CLOCK:
        count, rest = divmod(rest, size)
        parts += f"{count}{unit}" if count else ""
    return parts


def range_text(least: int, most: int | None) -> int | str:
    """The inverse of :func:`read_range`."""
    if least == most:
        return least
    return f"{least}..{'' if most is None else most}"


def _number(value: object) -> float | None:
    """A number from 0 to MOST, from itself or its text; None if it is anything else. ``True`` is no number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, str):
        found = _COUNT.fullmatch(brief(value))
        value = round(float(found[1]) * _MULTIPLES[found[2].lower()], 9) if found else -1
    return float(value) if 0 <= value <= MOST else None


def _seconds(value: object) -> float:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise UnitError("")
        seconds = parse_duration(value if isinstance(value, str) else repr(float(value)))
    except (InputError, OverflowError):
        raise UnitError(
            f"{shown(value)} is not a duration", "a number with ms, s, m, h, d or w", 'Try "90s", "6h" or "1h30m"'
        ) from None
    if seconds > MOST_SECONDS:
        raise UnitError(f"{shown(value)} is more than a century", "at most 100 years", 'Try "90s", "6h" or "1h30m"')
    return seconds


def _deadline_text(value: object) -> str | None:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return duration_text(value.total_seconds())
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return value.strip() if isinstance(value, str) else f"{float(value):.17g}"
