"""Where the platform's memory is kept: SQLite by default, PostgreSQL by URL."""

import contextlib

from sqlalchemy.exc import SQLAlchemyError

from penstock.control.state.store.archive import ArchiveRepository
from penstock.control.state.store.audit import AuditEntry, AuditRepository
from penstock.control.state.store.backup import BackupSummary, back_up, carried_files, examined, restore
from penstock.control.state.store.compaction import Compaction
from penstock.control.state.store.database import Database, open_engine, prepare, reading
from penstock.control.state.store.faults import DamagedError
from penstock.control.state.store.history import History, Holding, JobMatches, Search
from penstock.control.state.store.jobs import ArrayMember, GrantRow, JobRepository, JobRow
from penstock.control.state.store.lease import LEASE_S, SILENCE_S, Lease, LeaseLostError
from penstock.control.state.store.log import Cursor, Key, Line, Log
from penstock.control.state.store.outcomes import OutcomeRepository, OutcomeRow
from penstock.control.state.store.quotas import Quota, QuotaRepository
from penstock.control.state.store.sessions import Session, SessionRepository
from penstock.control.state.store.snapshots import SnapshotRepository, StateSnapshot
from penstock.control.state.store.tokens import Principal, Role, Scope, TokenRepository
from penstock.core import PenstockError


class Store:
    """All repositories of one database, with the schema up to date, as long as the lease is ours.

    ``holder`` and ``patience_s`` are those of the :class:`Lease`.
    """

    def __init__(self, url: str, *, holder: str = "", patience_s: float = 0.0) -> None:
        self.url = url
        self._engine = open_engine(url)
        self.lease = Lease(self._engine, holder, patience_s)
        try:
            prepare(self._engine, self.lease)
        except BaseException:
            self._engine.dispose()
            raise
        database = Database(self._engine, self.lease)
        self.log = Log(database)
        self.jobs = JobRepository(database)
        self.tokens = TokenRepository(database)
        self.sessions = SessionRepository(database)
        self.audit = AuditRepository(database)
        self.quotas = QuotaRepository(database)
        self.snapshots = SnapshotRepository(database)
        self.archive = ArchiveRepository(database)
        self.outcomes = OutcomeRepository(database)
        self.compaction = Compaction(database)
        self.history = History(database)

    def close(self) -> None:
        with contextlib.suppress(PenstockError, SQLAlchemyError):
            self.lease.release()
        self._engine.dispose()


__all__ = [
    "LEASE_S",
    "SILENCE_S",
    "ArchiveRepository",
    "ArrayMember",
    "AuditEntry",
    "AuditRepository",
    "BackupSummary",
    "Compaction",
    "Cursor",
    "DamagedError",
    "GrantRow",
    "History",
    "Holding",
    "JobMatches",
    "JobRepository",
    "JobRow",
    "Key",
    "Lease",
    "LeaseLostError",
    "Line",
    "Log",
    "OutcomeRepository",
    "OutcomeRow",
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
    "back_up",
    "carried_files",
    "examined",
    "reading",
    "restore",
]
