"""What a run told: one line each, numbered from 1 without gaps, on the disk before anyone acts on it.

One writer (the agent that holds the lock), any number of readers. A line counts once its newline is there: what a
crash cut off is overwritten by the next writer and never seen by a reader. Times never go back, whatever somebody does
to the wall clock: the order of reports is the order of their times.
"""

import json
import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from penstock.core import CodecError, Report, ReportKind, build, clean_text, plain
from penstock.tools import sync_directory

_TAIL_BLOCK = 64 * 1024
_READ_AT_ONCE = 4 * 2**20
_MOST_LINES = 50
_SHOWN = 300
_FIELDS = frozenset(field.name for field in fields(Report))


class ReportJournalWriter:
    """Appends reports. When the disk is full they wait in order, in memory, until there is room again."""

    def __init__(self, path: Path, run_id: str, clock: Callable[[], float] = time.time) -> None:
        self._run_id = run_id
        self._clock = clock
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._seq, self._end, self._at = last_report(path, run_id)
        self._waiting: deque[bytes] = deque()
        os.ftruncate(self._handle, self._end)
        os.lseek(self._handle, self._end, os.SEEK_SET)
        sync_directory(path.parent)

    @property
    def settled(self) -> bool:
        """Whether everything that was told is on the disk."""
        return not self._waiting

    def append(self, kind: ReportKind, said: dict[str, Any]) -> bool:
        """Tell something; whether it (and all before it) is durable now."""
        self._seq, self._at = self._seq + 1, max(self._at, self._clock())
        self._waiting.append(report_line(self._report(kind, said)))
        return self.flush()

    def _report(self, kind: ReportKind, said: dict[str, Any]) -> Report:
        """The report; what cannot be one is told as nonsense, because a number in the row must not be missing."""
        number: dict[str, Any] = {"run_id": self._run_id, "seq": self._seq, "at": self._at}
        try:
            return Report(**number, kind=kind, **said)
        except (TypeError, ValueError) as error:
            return Report(**number, kind=ReportKind.NONSENSE, reason=f"a {kind} that cannot be: {error}")

    def flush(self) -> bool:
        """Try to write what waits."""
        try:
            while self._waiting:
                self._write(self._waiting[0])
                self._waiting.popleft()
        except OSError:
            os.ftruncate(self._handle, self._end)
            os.lseek(self._handle, self._end, os.SEEK_SET)
        return self.settled

    def close(self) -> None:
        os.close(self._handle)

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(self._handle, rest) :]
        os.fsync(self._handle)
        self._end += len(line)


class ReportJournalReader:
    """Reads on from where it stopped, so that following a long run costs what is new and not what is old.

    Its place is one value that is replaced as a whole: threads that read at once cannot mislead each other.
    """

    def __init__(self, path: Path, run_id: str) -> None:
        self._path = path
        self._run_id = run_id
        self._place = (0, 0)  # a report's number, and where in the file it ends

    def after(self, seq: int) -> tuple[Report, ...]:
        """The reports that follow number ``seq``."""
        known, offset = self._place
        if seq < known or not self._path.exists() or self._path.stat().st_size < offset:
            known = offset = 0
        reports = []
        for number, line in enumerate(self._lines(offset), start=known + 1):
            if number > seq:
                reports.append(self._understood(number, line))
            else:
                known, offset = number, offset + len(line)
        self._place = (known, offset)
        return tuple(reports)

    def _understood(self, number: int, line: bytes) -> Report:
        """The report in a line; one that cannot be read is nonsense, and what follows it counts all the same."""
        try:
            report = read_report(self._run_id, line)
        except (CodecError, ValueError, RecursionError) as error:
            why = clean_text(f"line {number} of its reports cannot be read: {error}", _SHOWN)
        else:
            if report.seq == number:
                return report
            why = f"line {number} of its reports calls itself number {report.seq}"
        return Report(run_id=self._run_id, seq=number, at=0.0, kind=ReportKind.NONSENSE, reason=why)

    def _lines(self, offset: int) -> list[bytes]:
        """Complete lines from there on, as many as are worth reading at once; what is longer than any is cut."""
        lines, size = [], 0
        with suppress(OSError), self._path.open("rb") as file:
            file.seek(offset)
            while size < _READ_AT_ONCE and (line := file.readline(_READ_AT_ONCE)):
                if not line.endswith(b"\n") and len(line) < _READ_AT_ONCE:
                    break
                lines.append(line)
                size += len(line)
        return lines


def last_report(path: Path, run_id: str) -> tuple[int, int, float]:
    """The last complete report's number, where it ends, and its time; reads the end of the file only.

    Where that cannot be read, lines are counted: a report has the number of its line.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start, block = size, b""
            while start > 0 and block.count(b"\n") < 2 and len(block) < _READ_AT_ONCE:
                start = max(0, start - _TAIL_BLOCK)
                file.seek(start)
                block = file.read(size - start)
    except OSError:
        return 0, 0, 0.0
    complete, newline, _ = block.rpartition(b"\n")
    if not newline and start == 0:
        return 0, 0, 0.0
    try:
        report = read_report(run_id, complete.rpartition(b"\n")[2])
    except (CodecError, ValueError, RecursionError):
        return *_counted(path), 0.0
    return report.seq, start + len(complete) + 1, report.at


def _counted(path: Path) -> tuple[int, int]:
    """How many lines are complete, and where the last one ends; a line longer than any is more than one."""
    count = end = position = 0
    with path.open("rb") as file:
        while line := file.readline(_READ_AT_ONCE):
            position += len(line)
            if line.endswith(b"\n") or len(line) == _READ_AT_ONCE:
                count, end = count + 1, position
    return count, end


def report_line(report: Report) -> bytes:
    """Only what was said; the run's name is the directory's."""
    said = {name: value for name, value in plain(report).items() if value not in (None, []) and name != "run_id"}
    return json.dumps(said).encode() + b"\n"


def read_report(run_id: str, line: bytes) -> Report:
    """The report in a line; what a newer version adds is passed over, and an earlier one called its kind ``type``."""
    values = json.loads(line)
    if not isinstance(values, dict):
        raise ValueError("not an object")
    said = {name: value for name, value in values.items() if name in _FIELDS}
    report: Report = build(Report, {"kind": values.get("type"), **_cleaned(said), "run_id": run_id})
    return report


def _cleaned(said: dict[str, Any]) -> dict[str, Any]:
    """Texts that fit into a database, the last of many lines."""
    lines = [str(line) for line in said["tail"]][-_MOST_LINES:] if isinstance(said.get("tail"), list) else []
    texts = {name: clean_text(value) for name, value in said.items() if isinstance(value, str)}
    return said | texts | {"tail": [clean_text(line) for line in lines]}
