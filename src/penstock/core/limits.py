"""How large the numbers and texts may be that come from outside: from workers, from the output of jobs, from job files.

A number beyond these bounds is never a measurement, and arithmetic on it fails for everybody who shares it. Whatever
enters is compared with them once, at the door, so that nothing behind the door has to.
"""

import math
import re

MOST_STEPS = 10**15
"""Beyond it floats no longer count in ones."""
MOST_SECONDS = 100 * 365.25 * 86400.0
"""A century: no duration in a job file or in a worker's message is longer."""
LATEST = 253_402_128_000.0
"""The last day but one of the year 9999, in seconds since the epoch: calendars end there, in every time zone."""
LONGEST_TEXT = 4000
"""Characters of one text that a worker says: a reason, a path, a line of output that is kept."""
LONGEST_QUANTITY = 100
"""Characters of a text that states one quantity: a number, a duration, a size, a date."""
TENANT_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
"""What tenants are called: their names become folders, users and parts of addresses."""
SECRET_NAME = r"[A-Za-z_][A-Za-z0-9_.-]{0,127}"
_MOST_WHOLE = 2**53

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_OBEYED = re.compile("\x1b\\[[0-?]*[ -/]*[@-~]|[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""What a terminal would obey: sequences (colours, cursor), then every control character but tabs and line ends."""


def is_count(number: int | None, most: int = MOST_STEPS) -> bool:
    """Whether it is a number from 0 to ``most``, or not given."""
    return number is None or 0 <= number <= most


def is_whole(number: int | None) -> bool:
    """Whether floats and databases hold it exactly."""
    return number is None or -_MOST_WHOLE <= number <= _MOST_WHOLE


def is_duration(seconds: float | None) -> bool:
    """Whether it is a time from 0 to a century, or not given."""
    return seconds is None or 0.0 <= seconds <= MOST_SECONDS


def is_figure(number: float | None) -> bool:
    """Whether it is finite, or not given."""
    return number is None or math.isfinite(number)


def is_storable(text: str) -> bool:
    """Whether databases, files and processes take it: no NUL, no half of a surrogate pair."""
    return _UNSTORABLE.search(text) is None


def brief(text: str, most: int = LONGEST_QUANTITY) -> str:
    """Return the text without blanks around it, or nothing where it is too long to be a quantity.

    Every text from outside passes here before a pattern reads it: the time that a pattern takes may grow faster than
    the text.
    """
    given = text.strip()
    return given if len(given) <= most else ""


def clean_text(text: str, most: int = LONGEST_TEXT) -> str:
    """A text that every database and terminal takes, cut to ``most`` characters: its end, where errors are named."""
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", _OBEYED.sub("", text[-most:]))
