"""How serious a line of output is, as far as it shows: loggers write their level, and tracebacks are errors."""

import re
from collections.abc import Iterable, Iterator
from enum import IntEnum

RANK = re.compile(r"^\[(?:rank)?(\d+)\]:? ?(?:\[rank\d+\]: ?)?")
"""What output of several workers begins each line with: our own mark, and that of torch before tracebacks."""
_ERROR = re.compile(
    r"\b(ERROR|CRITICAL|FATAL)\b|^Traceback \(most recent call last\)|^\w[\w.]*(Error|Exception)\b", re.M
)
_WARNING = re.compile(r"\b(WARN|WARNING)\b|\b\w*Warning:")


class Level(IntEnum):
    """From what is said all the time to what ends a run."""

    USUAL = 0
    WARNING = 1
    ERROR = 2


def rank_of(line: str) -> str:
    """The number of the worker that wrote a line; nothing for a word of the platform."""
    found = RANK.match(line)
    return found.group(1) if found else ""


def levelled(lines: Iterable[str]) -> Iterator[tuple[Level, str]]:
    """Lines with their levels. What is indented below a traceback's head belongs to it, worker by worker."""
    within: set[str] = set()
    for line in lines:
        rank, text = rank_of(line), RANK.sub("", line)
        if rank in within and text.startswith((" ", "\t")):
            yield Level.ERROR, line
            continue
        within.discard(rank)
        if text.startswith("Traceback "):
            within.add(rank)
        yield _level(text), line


def _level(text: str) -> Level:
    return Level.ERROR if _ERROR.search(text) else Level.WARNING if _WARNING.search(text) else Level.USUAL
