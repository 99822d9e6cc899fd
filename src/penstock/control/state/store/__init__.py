"""Where the platform's memory is kept: SQLite by default, PostgreSQL by URL."""

from penstock.control.state.store.archive import ArchiveRepository
from penstock.control.state.store.audit import AuditEntry, AuditRepository
from penstock.control.state.store.compaction import Compaction
from penstock.control.state.store.database import claim, migrate, open_engine
from penstock.control.state.store.history import History, Holding, JobMatches, Search
from penstock.control.state.store.jobs import GrantRow, JobRepository, JobRow
from penstock.control.state.store.log import Cursor, Key, Line, Log
from penstock.control.state.store.quotas import Quota, QuotaRepository
from penstock.control.state.store.sessions import Session, SessionRepository
from penstock.control.state.store.snapshots import SnapshotRepository, StateSnapshot
from penstock.control.state.store.tokens import Principal, Role, Scope, TokenRepository


class Store:
    """All repositories of one database, with the schema up to date."""

    def __init__(self, url: str) -> None:
        self._engine = open_engine(url)
        try:
            migrate(self._engine)
            self._claim = claim(self._engine)
        except BaseException:
            self._engine.dispose()
            raise
        self.log = Log(self._engine)
        self.jobs = JobRepository(self._engine)
        self.tokens = TokenRepository(self._engine)
        self.sessions = SessionRepository(self._engine)
        self.audit = AuditRepository(self._engine)
        self.quotas = QuotaRepository(self._engine)
        self.snapshots = SnapshotRepository(self._engine)
        self.archive = ArchiveRepository(self._engine)
        self.compaction = Compaction(self._engine)
        self.history = History(self._engine)

    def close(self) -> None:
        if self._claim is not None:
            self._claim.close()
        self._engine.dispose()


__all__ = [
    "ArchiveRepository",
    "AuditEntry",
    "AuditRepository",
    "Compaction",
    "Cursor",
    "GrantRow",
    "History",
    "Holding",
    "JobMatches",
    "JobRepository",
    "JobRow",
    "Key",
    "Line",
    "Log",
    "Principal",
    "Quota",
    "QuotaRepository",
    "Role",
    "Scope",
    "Search",
    "Session",
    "SessionRepository",
    "SnapshotRepository",
    "StateSnapshot",
    "Store",
    "TokenRepository",
]
