"""What people may ask about the files that jobs saved: rights, audit and the places where files may lie, together."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.control.platform.access import Action, require
from penstock.control.platform.audit import AuditLog
from penstock.control.platform.checkpoint_cleaning import clean_checkpoints
from penstock.control.platform.checkpoint_listing import list_checkpoints
from penstock.control.platform.commands import Commands
from penstock.control.platform.job_files import FilePlaces, OpenFile, list_files, open_file
from penstock.control.state.journal import Journal
from penstock.control.state.records import JobRecord
from penstock.control.state.store import Principal
from penstock.wire import (
    CheckpointList,
    CleanReport,
    CleanRequest,
    FileList,
    MissingError,
    TooManyError,
    UnavailableError,
)

_MOST_VERIFICATIONS = 4


class Verifications:
    """Verifications under way, each of which reads all that a job saved: one for each tenant, a few in all."""

    def __init__(self) -> None:
        self._jobs: dict[str, str] = {}
        self._lock = threading.Lock()

    @contextmanager
    def one(self, tenant: str, job_id: str) -> Iterator[None]:
        """Take a place until the verification ends; raises :class:`~penstock.wire.TooManyError`."""
        with self._lock:
            if (other := self._jobs.get(tenant)) is not None:
                raise TooManyError(
                    f"Tenant {tenant!r} is having checkpoints of job {other!r} verified", "one verification at a time",
                    "Try again when that has ended, or leave verify out",
                )  # fmt: skip
            if len(self._jobs) == _MOST_VERIFICATIONS:
                raise TooManyError(
                    f"{_MOST_VERIFICATIONS} tenants are having checkpoints verified", f"at most {_MOST_VERIFICATIONS}",
                    "Try again later, or leave verify out",
                )  # fmt: skip
            self._jobs[tenant] = job_id
        try:
            yield
        finally:
            with self._lock:
                del self._jobs[tenant]


class SavedFiles:
    """Checkpoints and other files in the directories that jobs save to; ``places`` is none where nobody sees them."""

    def __init__(self, journal: Journal, commands: Commands, audit: AuditLog, places: FilePlaces | None) -> None:
        self._journal = journal
        self._commands = commands
        self._audit = audit
        self._known_places = places
        self._verifications = Verifications()

    def checkpoints(
        self, job_id: str, who: Principal, *, verify: bool = False, unwanted: Callable[[], bool] = lambda: False
    ) -> CheckpointList:
        """What a job can go on from, the newest first, and whether it is whole.

        With ``verify`` every checksum is computed, until the answer is ``unwanted``.
        """
        record = self._find(job_id, who)
        if not verify:
            return list_checkpoints(self._places, record)

        def go_on() -> None:
            if unwanted():
                raise UnavailableError("The verification was ended", "a client that waits, of a server that goes on")

        with self._verifications.one(who.tenant, record.id):
            return list_checkpoints(self._places, record, go_on)

    def files(self, job_id: str, who: Principal, path: str = "") -> FileList:
        """What lies in a job's directory, or below a path in it."""
        return list_files(self._places, self._find(job_id, who), path)

    def read(self, job_id: str, who: Principal, path: str) -> OpenFile:
        """A file of a job."""
        return open_file(self._places, self._find(job_id, who), path)

    def clean(self, wanted: CleanRequest, who: Principal) -> CleanReport:
        """Remove what jobs saved that are over, or say what would go."""
        if wanted.dry_run:
            return clean_checkpoints(self._places, self._journal, wanted, require(who, Action.STEER))
        with self._audit.recorded(who, "clean") as about:
            require(who, Action.STEER)
            report = clean_checkpoints(self._places, self._journal, wanted, who)
            about.name = f"{len(report.jobs)} jobs"
        return report

    def _find(self, job_id: str, who: Principal) -> JobRecord:
        return self._commands.find(job_id, require(who, Action.LOOK))

    @property
    def _places(self) -> FilePlaces:
        if self._known_places is None:
            raise MissingError("This server sees no files of jobs", "a server that was told where they lie")
        return self._known_places
