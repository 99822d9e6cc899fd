"""The output of a job across its runs, with a cursor that survives a change of run.

A cursor is ``run:offset``: which of the job's runs, counted from 0, and how many bytes of it have been read.
"""

from dataclasses import dataclass

from penstock.backends import Backend
from penstock.core import InputError
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


def log_page(
    backend: Backend, runs: list[str], over: bool, *, worker: str | None, cursor: LogCursor, limit: int
) -> LogPage:
    """Up to ``limit`` bytes from ``cursor`` on; a run that has been superseded is read to its end first.

    ``over``: the job will never have another run, so the end of the last one is the end of its output.
    """
    while cursor.run < len(runs):
        data, offset = backend.logs(runs[cursor.run], worker, cursor.offset, limit)
        if data:
            text = data.decode("utf-8", "replace")
            return LogPage(text=text, next=str(LogCursor(cursor.run, offset)), complete=False)
        if cursor.run == len(runs) - 1:
            break
        cursor = LogCursor(cursor.run + 1)
    return LogPage(text="", next=str(cursor), complete=over)
