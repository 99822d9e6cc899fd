"""The output of a job across its runs, with a cursor that survives a change of run.

A cursor is ``run:offset``: which of the job's runs, counted from 0, and how many bytes of it have been read. Where a
job has been prepared, what was said meanwhile comes before its first run and is counted like one.
"""

from dataclasses import dataclass
from pathlib import Path

from penstock.backends import Backend, read_log
from penstock.core import InputError, format_bytes
from penstock.wire import LogPage

_MOST = 2**62
"""No log has more bytes, and no file system can be asked for more."""


@dataclass(frozen=True, slots=True)
class LogCursor:
    """A position in a job's output."""

    run: int = 0
    offset: int = 0

    @classmethod
    def parse(cls, text: str | None) -> "LogCursor":
        try:
            run, _, offset = (text or "0:0").partition(":")
            cursor = cls(int(run), int(offset))
        except ValueError:
            cursor = cls(-1)
        if not (0 <= cursor.run <= _MOST and 0 <= cursor.offset <= _MOST):
            raise InputError(
                f"{text!r} is not a log cursor", "RUN:OFFSET as a previous answer gave it",
                "Leave it out to begin at the first line",
            )  # fmt: skip
        return cursor

    def __str__(self) -> str:
        return f"{self.run}:{self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutput:
    """Everything a job has printed, piece after piece: its preparation, if it had one, and its runs.

    ``over``: the job will never have another run, so the end of the last one is the end of its output.
    """

    backend: Backend
    runs: tuple[str, ...]
    over: bool
    preparation_log: str = ""

    @property
    def pieces(self) -> int:
        return len(self.runs) + bool(self.preparation_log)

    def page(self, *, worker: str | None, cursor: LogCursor, limit: int) -> LogPage:
        """Up to ``limit`` bytes from ``cursor`` on; a run that has been superseded is read to its end first.

        Lines of our own, in square brackets, say where another run begins and what was dropped when a log was rotated.
        """
        while cursor.run < self.pieces:
            data, offset = self._read(cursor, worker, limit)
            if data:
                text = self._remarks(cursor, offset - len(data)) + data.decode("utf-8", "replace")
                return LogPage(text=text, next=str(LogCursor(cursor.run, offset)), complete=False)
            if cursor.run == self.pieces - 1:
                break
            cursor = LogCursor(cursor.run + 1)
        return LogPage(text="", next=str(cursor), complete=self.over)

    def since(self, moment: float, *, worker: str | None) -> LogCursor:
        """Where output begins that was written at ``moment`` or later; the end of what there is, if there is none."""
        if self.preparation_log and worker is None and _was_written_since(Path(self.preparation_log), moment):
            return LogCursor()
        first = self.pieces - len(self.runs)
        cursor = LogCursor(first)
        for number, run in enumerate(self.runs, start=first):
            cursor = LogCursor(number, self.backend.log_offset(run, worker, moment))
            if self._read(cursor, worker, 1)[0]:
                break
        return cursor

    def _remarks(self, cursor: LogCursor, begins: int) -> str:
        number, dropped = cursor.run - (self.pieces - len(self.runs)) + 1, begins - cursor.offset
        another = f"[run {number} of this job]\n" if cursor.offset == 0 and number > 1 else ""
        return another + (f"[{format_bytes(dropped)} of older output were dropped here]\n" if dropped > 0 else "")

    def _read(self, cursor: LogCursor, worker: str | None, limit: int) -> tuple[bytes, int]:
        """No worker has anything to do with the preparation."""
        if not self.preparation_log:
            return self.backend.logs(self.runs[cursor.run], worker, cursor.offset, limit)
        if cursor.run > 0:
            return self.backend.logs(self.runs[cursor.run - 1], worker, cursor.offset, limit)
        return read_log(Path(self.preparation_log), cursor.offset, limit) if worker is None else (b"", 0)


def _was_written_since(log: Path, moment: float) -> bool:
    try:
        return log.stat().st_mtime >= moment
    except OSError:
        return False
