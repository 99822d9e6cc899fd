"""Quantities the way people write them, and back.

Base units everywhere in the code: seconds, bytes, joules, iterations. These functions are the only
place where "6h", "24GB", "16x8" or "2026-12-01T18:00" are understood.
"""

import math
import re
from datetime import UTC, datetime

from penstock.core.errors import UnitError
from penstock.core.limits import MOST_SECONDS, brief

_SECONDS = {"ms": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_BYTES = {
    "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40,
}  # fmt: skip

_NUMBER = r"\d+(?:_\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?"
_DURATION_PART = re.compile(rf"({_NUMBER})\s*(ms|min|[smhdw])", re.IGNORECASE)
_PLAIN = re.compile(rf"({_NUMBER})", re.IGNORECASE)
_WITH_UNIT = re.compile(rf"({_NUMBER})\s*([a-z]+)", re.IGNORECASE)


def parse_duration(text: str) -> float:
    """Seconds in "90", "45s", "6h", "1h30m" or "2d 4h"; a bare number is seconds."""
    given = brief(text)
    if plain := _PLAIN.fullmatch(given):
        return _finite(float(plain[1].replace("_", "")), text, "a duration")
    parts = _DURATION_PART.findall(given)
    if not parts or _DURATION_PART.sub("", given).strip():
        raise UnitError(
            f"{text!r} is not a duration", "a number with ms, s, m, h, d or w", 'Try "90s", "6h" or "1h30m"'
        )
    return _finite(sum(float(n.replace("_", "")) * _SECONDS[u.lower()] for n, u in parts), text, "a duration")


def parse_bytes(text: str) -> int:
    """Bytes in "24GB" (decimal) or "24GiB" (binary)."""
    found = _WITH_UNIT.fullmatch(brief(text))
    if found is None or found[2].upper() not in _BYTES:
        raise UnitError(
            f"{text!r} is not a size", "a number with B, KB, MB, GB, TB, KiB, MiB, GiB or TiB", 'Try "24GB" or "16GiB"'
        )
    return round(_finite(float(found[1].replace("_", "")) * _BYTES[found[2].upper()], text, "a size"))


def parse_instant(text: str) -> float:
    """Seconds since the epoch of "2026-12-01T18:00"; without an offset it is UTC."""
    try:
        moment = datetime.fromisoformat(brief(text))
    except ValueError:
        raise UnitError(f"{text!r} is not a date and time", "ISO 8601", 'Try "2026-12-01T18:00"') from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def parse_deadline(text: str, now: float) -> float:
    """An absolute time from either a duration counted from ``now`` or a date."""
    if re.match(r"\d{4}-\d{2}", brief(text)):
        return parse_instant(text)
    try:
        seconds = parse_duration(text)
    except UnitError:
        raise UnitError(
            f"{text!r} is not a deadline", "a duration from now, or a date and time", 'Try "6h" or "2026-12-01T18:00"'
        ) from None
    if seconds > MOST_SECONDS:
        raise UnitError(
            f"a deadline of {text!r} is more than a century away", "at most 100 years", "Leave it out for best effort"
        )
    return now + seconds


def format_duration(seconds: float) -> str:
    """The two leading units: "2d 4h", "1h 30m", "45s", "0.7s"."""
    if not math.isfinite(seconds):
        return "never"
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if seconds < 10:
        return f"{seconds:.3g}s"
    rest = round(seconds)
    parts: list[str] = []
    for unit in ("d", "h", "m", "s"):
        count, rest = divmod(rest, int(_SECONDS[unit]))
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if part)


def counted(count: float, noun: str) -> str:
    """Return a count with its noun: "1 job", "1,400 jobs", "2.19 iterations"; never an exponent.

    >>> counted(1, "promise"), counted(1412.08, "iteration")
    ('1 promise', '1,412 iterations')
    """
    text = f"{count:,.0f}" if count == round(count) or count >= 100 else f"{count:.3g}"
    return f"{text} {noun}{'' if text == '1' else 's'}"


def format_bytes(count: float) -> str:
    """Decimal size with one digit: "24.0GB"."""
    for unit in ("TB", "GB", "MB", "KB"):
        if count >= _BYTES[unit]:
            return f"{count / _BYTES[unit]:.1f}{unit}"
    return f"{count:.0f}B"


def _finite(value: float, text: str, what: str) -> float:
    if not math.isfinite(value):
        raise UnitError(f"{text!r} is too large to be {what}", "a finite number")
    return value
