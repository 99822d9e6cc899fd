"""The output of a job across its runs, with a cursor that survives a change of run.

A cursor is ``run:offset``: which of the job's runs, counted from 0, and how many bytes of it have been read.
"""

from dataclasses import dataclass

from penstock.control.api.services import Services
from penstock.control.state.records import JobRecord
from penstock.core import InputError


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a job's output."""

    run: int = 0
    offset: int = 0

    @classmethod
    def parse(cls, text: str | None) -> "Place":
        try:
            run, _, offset = (text or "0:0").partition(":")
            place = cls(int(run), int(offset))
        except ValueError:
            place = cls(-1)
        if place.run < 0 or place.offset < 0:
            raise InputError(f"the log cursor {text!r}", "RUN:OFFSET as a previous answer gave it", "Leave it out")
        return place

    def __str__(self) -> str:
        return f"{self.run}:{self.offset}"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some output, where to go on, and whether that was all there will ever be."""

    data: bytes
    next: Place
    complete: bool


def read(platform: Services, record: JobRecord, worker: str | None, place: Place, limit: int) -> Chunk:
    """Up to ``limit`` bytes from ``place`` on; a run that has been superseded is read to its end first."""
    with platform.journal.reading():
        runs, over = list(record.runs), record.over
    while place.run < len(runs):
        data, offset = platform.reconciler.backend.logs(runs[place.run], worker, place.offset, limit)
        if data:
            return Chunk(data, Place(place.run, offset), False)
        if place.run == len(runs) - 1:
            break
        place = Place(place.run + 1)
    return Chunk(b"", place, over)
