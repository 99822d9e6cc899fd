"""The error that a Python traceback ends with, and the line of the author's own code that it passed last.

Ranks write over each other, and whatever collects their output puts something of its own before each line: a container,
a host, a time, a level. So the lines of a traceback are those that begin as its first line does; where they do not,
those of the same rank. A collector may also make every line, or the whole traceback, a value of a JSON object.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.diagnose.logs.lines import LogLine, plain, read_line

HEADER = "Traceback (most recent call last)"
_FRAME = re.compile(r'^\s*File "(?P<path>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?')
_BOXED_FRAME = re.compile(r"^[\s│|]*(?P<path>(?:[A-Za-z]:)?[\w./\\~+-]+\.py):(?P<line>\d+) in ")
_FOREIGN = re.compile(
    r"site-packages|dist-packages|<frozen |<string>|/penstock/(backends|runtime|elastic)|[/\\]bin[/\\]|"
    r"[/\\]lib[/\\]python3|[/\\]lib[/\\](multiprocessing|concurrent|importlib|runpy)"
)
_ERROR = re.compile(r"^(?P<name>[A-Za-z_][\w.]*)(?:: ?(?P<message>.*)|$)")
_NAMED = re.compile(r"(Error|Exception|Exit|Interrupt|Warning|Failure|Timeout|Died|Killed|NotFound|Missing\w*)$")
_CLOCK = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?|\d+\.\d{3,}")
_MOST_CLOCKS = 4
_SAID = (
    "log",
    "msg",
    "message",
    "text",
    "textPayload",
    "event",
    "error",
    "exception",
    "exc_info",
    "stack",
    "traceback",
)
"""Under which keys objects of JSON logs have what was said."""
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
    for below, text in _own_lines(first, after):
        if match := _FRAME.match(text) or _BOXED_FRAME.match(text):
            frames.append((f"{match['path']}:{match['line']}", not _FOREIGN.search(match["path"])))
        elif (match := _ERROR.match(text)) and (frames or _NAMED.search(match["name"])):
            if not (_NAMED.search(match["name"]) or "." in match["name"]):
                continue
            frame, owned = next(
                (frame for frame in reversed(frames) if frame[1]), frames[-1] if frames else ("", False)
            )
            return Traceback(name=match["name"], error=text.strip(), frame=frame, owned=owned, below=below)
    return None


def _own_lines(first: LogLine, after: str) -> Iterator[tuple[int, str]]:
    """The lines that belong to a header, with how far below it they are."""
    header = _said(first.text)
    before, _, rest = header.partition(HEADER)
    for text in rest.replace("\\n", "\n").split("\n")[1:]:
        yield 0, text.rstrip()
    begins = _beginning(first.prefix + before)
    for below, raw in enumerate(after.splitlines()[:_MOST_LINES], start=1):
        said = _said(plain(raw))
        if begins is not None and (match := begins.match(said)):
            yield below, said[match.end() :]
            continue
        line = read_line(said)
        if (line.rank, line.node) == (first.rank, first.node) or line.rank is None:
            yield below, line.text


def _said(line: str) -> str:
    """What a line of a JSON log says; any other line as it is."""
    if not line.startswith("{"):
        return line
    try:
        found = json.loads(line)
    except ValueError:
        return line
    values = [str(found[key]).rstrip("\n") for key in _SAID if isinstance(found, dict) and found.get(key)]
    return next((value for value in values if HEADER in value), values[0] if values else line)


def _beginning(prefix: str) -> re.Pattern[str] | None:
    """What the lines below a header with this prefix begin with: the same, but at another time."""
    if not prefix:
        return None
    pieces = [re.escape(piece) for piece in _CLOCK.split(prefix, maxsplit=_MOST_CLOCKS)]
    return re.compile(r"[\d:.,-]{1,30}".join(pieces))
