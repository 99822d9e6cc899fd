"""A stream in overlapping windows, each searched once: memory is bounded by a window, whatever the log's size."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from penstock.diagnose.logs.gram_filter import GramFilter

CHUNK = 1 << 20
BEFORE, AFTER = 4_096, 16_384
"""What of a window is kept for the next one, so that every line is seen with what is around it."""
_LONGEST_LINE = 4_096
_SURROUNDINGS = 1_500
_TAIL = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A line that has words of some literals, by where it is in a window: what is around it costs nothing unread."""

    window: bytes
    start: int
    end: int
    number: int
    literals: frozenset[bytes]

    @property
    def raw(self) -> bytes:
        return self.window[self.start : self.end]

    @property
    def text(self) -> str:
        return self.raw.decode("utf-8", "replace")

    @property
    def after(self) -> bytes:
        return self.window[self.end + 1 : self.end + AFTER]

    @property
    def surroundings(self) -> str:
        before = self.window[max(0, self.start - 1 - _SURROUNDINGS) : max(0, self.start - 1)]
        around = before + b"\n" + self.raw + b"\n" + self.after[:_SURROUNDINGS]
        return around.decode("utf-8", "replace")


@dataclass(slots=True)
class WindowReader:
    """Candidates of one stream in order; ``tail`` is its end, once it has been read."""

    filter: GramFilter
    tail: bytes = b""
    _lines: int = 0

    def candidates(self, stream: BinaryIO) -> Iterator[Candidate]:
        window, done = b"\n", 1
        while True:
            data = stream.read(CHUNK)
            window += data or b"\n"
            limit = len(window) - AFTER if data else len(window)
            if limit > done:
                yield from self._searched(window, done, limit)
                done = limit
            if not data:
                self.tail = window[-_TAIL:]
                return
            cut = max(0, done - BEFORE)
            self._lines += window.count(b"\n", 0, cut)
            window, done = window[cut:], done - cut

    def _searched(self, window: bytes, done: int, limit: int) -> Iterator[Candidate]:
        """The candidate lines that begin between ``done`` and ``limit``."""
        counted, number = 0, self._lines
        for start, end, literals in _lines_with(window, self.filter.hits(window)):
            if done <= start < limit:
                number += window.count(b"\n", counted, start)
                counted = start
                yield Candidate(window=window, start=start, end=end, number=number, literals=frozenset(literals))


def _lines_with(window: bytes, hits: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, int, set[bytes]]]:
    """Where the lines begin and end that have any of the literals that may be in them, and which they have."""
    start = end = -1
    region, literals = b"", set[bytes]()
    for place, literal in hits:
        if place >= end:
            if literals:
                yield start, end, literals
            start, end = _line_around(window, place)
            region, literals = window[max(0, start - 1) : end + 1].lower(), set()
        if literal in region:
            literals.add(literal)
    if literals:
        yield start, end, literals


def _line_around(window: bytes, place: int) -> tuple[int, int]:
    """Where the line of a place begins and ends; one that is drawn over and over ends where it is drawn again."""
    inside = place + 3
    low, high = max(0, place - _LONGEST_LINE), place + _LONGEST_LINE
    start = max(window.rfind(b"\n", low, inside), window.rfind(b"\r", low, inside)) + 1 or low
    ends = [at for at in (window.find(b"\n", start, high), window.find(b"\r", start, high)) if at >= 0]
    return start, min(ends, default=min(high, len(window)))
