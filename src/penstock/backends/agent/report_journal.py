"""What a run told: one line each, numbered from 1 without gaps, on the disk before anyone acts on it.

One writer (the agent that holds the lock), any number of readers. A line counts once its newline is there: what a
crash cut off is overwritten by the next writer and never seen by a reader. Times are the wall clock's and never go
back, also when somebody sets it back: the order of reports is the order of their times.
"""

import json
import os
import time
from collections import deque
from dataclasses import fields
from pathlib import Path
from typing import Any

from penstock.core import Report, ReportKind, build, plain
from penstock.tools import sync_directory

_TAIL_BLOCK = 64 * 1024
_FIELDS = frozenset(field.name for field in fields(Report))


class ReportJournalWriter:
    """Appends reports. When the disk is full they wait in order, in memory, until there is room again."""

    def __init__(self, path: Path, run_id: str) -> None:
        self._run_id = run_id
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
        self._seq, self._at = self._seq + 1, max(self._at, time.time())
        report = Report(run_id=self._run_id, seq=self._seq, at=self._at, kind=kind, **said)
        self._waiting.append(report_line(report))
        return self.flush()

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
        for line in self._lines(offset):
            report = read_report(self._run_id, line)
            if report.seq > seq:
                reports.append(report)
            else:
                known, offset = report.seq, offset + len(line)
        self._place = (known, offset)
        return tuple(reports)

    def _lines(self, offset: int) -> list[bytes]:
        try:
            with self._path.open("rb") as file:
                file.seek(offset)
                return [line for line in file if line.endswith(b"\n")]
        except FileNotFoundError:
            return []


def last_report(path: Path, run_id: str) -> tuple[int, int, float]:
    """The last complete report's number, where it ends, and its time; reads the end of the file only."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start, block = size, b""
            while start > 0 and block.count(b"\n") < 2:
                start = max(0, start - _TAIL_BLOCK)
                file.seek(start)
                block = file.read(size - start)
    except FileNotFoundError:
        return 0, 0, 0.0
    complete, newline, _ = block.rpartition(b"\n")
    if not newline:
        return 0, 0, 0.0
    report = read_report(run_id, complete.rpartition(b"\n")[2])
    return report.seq, start + len(complete) + 1, report.at


def report_line(report: Report) -> bytes:
    """Only what was said; the run's name is the directory's."""
    said = {name: value for name, value in plain(report).items() if value not in (None, []) and name != "run_id"}
    return json.dumps(said).encode() + b"\n"


def read_report(run_id: str, line: bytes) -> Report:
    """The report in a line; what a newer version adds is passed over, and an earlier one called its kind ``type``."""
    values = json.loads(line)
    said = {name: value for name, value in values.items() if name in _FIELDS}
    report: Report = build(Report, {"kind": values.get("type"), **said, "run_id": run_id})
    return report
