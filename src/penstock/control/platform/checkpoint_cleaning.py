"""Removes what jobs saved that are over: by how long ago they ended and by how much it is.

Only directories that the platform made for one job are touched, and only of jobs that never go on: a job that waits, is
paused or runs may need its checkpoints again, and a directory that a job file names may be somebody else's as well.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from penstock.control.platform.checkpoint_listing import list_checkpoints
from penstock.control.platform.job_files import FilePlaces
from penstock.control.state.journal import Journal
from penstock.control.state.records import JobRecord
from penstock.control.state.store import Principal
from penstock.core import InputError, clean_text, first_directory, parse_bytes, parse_duration
from penstock.tools import acting_as, remove_tree
from penstock.wire import CheckpointView, CleanedJob, CleanReport, CleanRequest, stamp

_log = logging.getLogger(__name__)
_LONGEST_PROBLEM = 300


def clean_checkpoints(places: FilePlaces, journal: Journal, wanted: CleanRequest, who: Principal) -> CleanReport:
    """What went, or would go, of the jobs that this principal may see; the largest first."""
    if wanted.older is None and wanted.larger is None:
        raise InputError("neither older nor larger", "at least one of them", "Try older: 30d with dry_run")
    ended_by = journal.now() - (0.0 if wanted.older is None else parse_duration(wanted.older))
    larger = -1 if wanted.larger is None else parse_bytes(wanted.larger)
    found = []
    for record in _ended(places, journal, who):
        if (record.ended_at or 0.0) > ended_by:
            continue
        try:
            saved = [each for each in list_checkpoints(places, record).checkpoints if each.where == "saved"]
        except Exception as error:  # whatever a job left there, the other jobs' files are looked at
            _log.exception("files of job %s cannot be looked at", record.id)
            found.append(_cleaned(record, [], f"not looked at: {error}"))
            continue
        if sum(each.bytes for each in saved) > larger and (going := saved[wanted.keep_last :]):
            found.append(_cleaned(record, going, "" if wanted.dry_run else _remove(places, record, going)))
    found.sort(key=lambda job: -job.bytes)
    return CleanReport(jobs=found, bytes=sum(job.bytes for job in found), dry_run=wanted.dry_run)


def _ended(places: FilePlaces, journal: Journal, who: Principal) -> Iterator[JobRecord]:
    """Jobs that are over and have a directory of their own."""
    names: list[str] = []
    with suppress(FileNotFoundError):
        names = sorted(entry.name for entry in os.scandir(places.root) if entry.is_dir(follow_symlinks=False))
    for name in names:
        record = journal.find(name)
        if record is not None and record.over and who.may_see(record.job.tenant) and places.is_own(record):
            yield record


def _cleaned(record: JobRecord, going: list[CheckpointView], problem: str) -> CleanedJob:
    return CleanedJob.model_validate(
        {
            "job_id": record.id, "name": record.submission.name, "state": str(record.mark),
            "ended_at": stamp(record.ended_at), "bytes": sum(each.bytes for each in going),
            "files": [each.path for each in going], "problem": clean_text(problem[:_LONGEST_PROBLEM]),
        }
    )  # fmt: skip


def _remove_abandoned(place: Path) -> None:
    """What a job saved before it began again at step 0."""
    first = Path(first_directory(str(place)))
    for path in list(first.iterdir()) if place != first else ():
        if path != place:
            remove_tree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _remove(places: FilePlaces, record: JobRecord, going: list[CheckpointView]) -> str:
    """The manifest first: without it a directory is no checkpoint that somebody might trust. Links are not followed."""
    place = places.of(record)
    try:
        with acting_as(places.user_of(record.job.tenant)):
            for each in going:
                (place / f"{each.path}.json").unlink(missing_ok=True)
                path = place / each.path
                if path.is_dir() and not path.is_symlink():
                    remove_tree(path)
                else:
                    path.unlink(missing_ok=True)
            _remove_abandoned(place)
        with suppress(OSError):
            place.rmdir()
    except OSError as error:
        return str(error)
    return ""
