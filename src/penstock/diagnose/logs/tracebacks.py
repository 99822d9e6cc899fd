"""The error that a Python traceback ends with, and the line of the author's own code that it passed last.

Ranks write over each other: the lines of a traceback are those that have the prefix of its first line.
"""

import re
from dataclasses import dataclass

from penstock.diagnose.logs.lines import LogLine, read_line

HEADER = "Traceback (most recent call last)"
_FRAME = re.compile(r'^\s*File "(?P<path>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?')
_FOREIGN = re.compile(
    r"site-packages|dist-packages|<frozen |<string>|/lib/python3|/penstock/(backends|runtime|elastic)|/bin/"
)
_ERROR = re.compile(r"^(?P<name>[A-Za-z_][\w.]*)(?:: ?(?P<message>.*)|$)")
_NAMED = re.compile(r"(Error|Exception|Exit|Interrupt|Warning|Failure|Timeout|Died|Killed|NotFound|Missing\w*)$")
_MOST_LINES = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Traceback:
    """``error`` is the last line, ``frame`` the author's own last frame, or the last of any."""

    name: str
    error: str
    frame: str
    owned: bool
    below: int
    """How many lines below its header the error is."""

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]


def read_traceback(first: LogLine, after: str) -> Traceback | None:
    """The traceback whose header is ``first``; none if its error is not there."""
    frames: list[tuple[str, bool]] = []
    for below, raw in enumerate(after.splitlines()[:_MOST_LINES], start=1):
        line = read_line(raw)
        if (line.rank, line.node) != (first.rank, first.node) and line.rank is not None:
            continue
        text = line.text
        if match := _FRAME.match(text):
            frames.append((f"{match['path']}:{match['line']}", not _FOREIGN.search(match["path"])))
        elif (match := _ERROR.match(text)) and (frames or _NAMED.search(match["name"])):
            if not (_NAMED.search(match["name"]) or "." in match["name"]):
                continue
            frame, owned = next(
                (frame for frame in reversed(frames) if frame[1]), frames[-1] if frames else ("", False)
            )
            return Traceback(name=match["name"], error=text.strip(), frame=frame, owned=owned, below=below)
    return None
