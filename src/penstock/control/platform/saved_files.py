"""What people may ask about the files that jobs saved: rights, audit and the places where files may lie, together."""

from penstock.control.platform.access import Action, require
from penstock.control.platform.audit import AuditLog
from penstock.control.platform.checkpoint_cleaning import clean_checkpoints
from penstock.control.platform.checkpoint_listing import list_checkpoints
from penstock.control.platform.commands import Commands
from penstock.control.platform.job_files import FilePlaces, OpenFile, list_files, open_file
from penstock.control.state.journal import Journal
from penstock.control.state.records import JobRecord
from penstock.control.state.store import Principal
from penstock.wire import CheckpointList, CleanReport, CleanRequest, FileList, MissingError


class SavedFiles:
    """Checkpoints and other files in the directories that jobs save to; ``places`` is none where nobody sees them."""

    def __init__(self, journal: Journal, commands: Commands, audit: AuditLog, places: FilePlaces | None) -> None:
        self._journal = journal
        self._commands = commands
        self._audit = audit
        self._known_places = places

    def checkpoints(self, job_id: str, who: Principal, *, verify: bool = False) -> CheckpointList:
        """What a job can go on from, the newest first, and whether it is whole."""
        return list_checkpoints(self._places, self._find(job_id, who), verify=verify)

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
