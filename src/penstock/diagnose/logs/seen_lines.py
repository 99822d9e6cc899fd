"""Lines that come over and over: a loop that tries again writes the same a million times.

Two lines are the same but for numbers that only count: long ones, and short ones that were in that place before. A
short one that is new there (an exit code, the number of an Xid) makes a line that may say something new.
"""

import re
from dataclasses import dataclass, field

_OFTEN = 100
_MOST_SHAPES, _MOST_NUMBERS = 10_000, 50_000
"""Beyond which no new ones are remembered, and lines with them are read."""
_NUMBER = re.compile(rb"\d+")
_SHORT = 3
"""Digits of a number that may mean something by itself."""


@dataclass(slots=True)
class _Shape:
    count: int = 0
    numbers: set[tuple[int, bytes]] = field(default_factory=set)


@dataclass(slots=True)
class SeenLines:
    """Remembers lines by what they are without their numbers, as a hash; bounded, whatever a log is like."""

    _shapes: dict[int, _Shape] = field(default_factory=dict)
    _numbers: int = 0

    def repeat(self, line: bytes) -> bool:
        """Whether this has come often, and with numbers that have been there before."""
        seen = self._shape(hash(line.translate(None, b"0123456789")))
        if seen is None:
            return False
        seen.count += 1
        short = {(at, number) for at, number in enumerate(_NUMBER.findall(line)) if len(number) <= _SHORT}
        new = short - seen.numbers
        if new and self._numbers < _MOST_NUMBERS:
            seen.numbers |= new
            self._numbers += len(new)
        return seen.count > _OFTEN and not new

    def _shape(self, key: int) -> _Shape | None:
        found = self._shapes.get(key)
        if found is None and len(self._shapes) < _MOST_SHAPES:
            found = self._shapes[key] = _Shape()
        return found
