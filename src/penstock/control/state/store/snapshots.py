"""The state as of an entry, so that a start does not have to read the whole log again.

A snapshot says which entry it stands after and in which format it is written; one that is damaged, or stands after an
entry that the log does not have, is as if it were not there.
"""

import hashlib
import json
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from penstock.control.state.store.database import Database
from penstock.control.state.store.log import Line, line_of
from penstock.control.state.store.tables import events, snapshots


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSnapshot:
    """``state`` after entry ``seq``, in the format of this ``version``."""

    seq: int
    version: str
    state: bytes


_KEPT = 2


class SnapshotRepository:
    """The newest snapshots; older ones are of no use."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, snapshot: StateSnapshot) -> None:
        """Add a snapshot, and let go of those that are no longer needed."""
        with self._database.begin() as connection:
            line = connection.execute(select(events).where(events.c.seq == snapshot.seq)).mappings().first()
            if line is None:
                return
            connection.execute(delete(snapshots).where(snapshots.c.seq == snapshot.seq))
            connection.execute(
                insert(snapshots).values(
                    seq=snapshot.seq, version=snapshot.version, state=snapshot.state,
                    entry=_digest(line_of(line)),
                    checksum=hashlib.sha256(snapshot.state).hexdigest(),
                )
            )  # fmt: skip
            newest = select(snapshots.c.seq).order_by(snapshots.c.seq.desc()).limit(_KEPT)
            kept = connection.scalars(newest).all()
            connection.execute(delete(snapshots).where(snapshots.c.seq.not_in(kept)))

    def kept(self) -> list[StateSnapshot]:
        """The snapshots that are whole and whose entry the log still has, the newest first."""
        with self._database.connect() as connection:
            rows = connection.execute(select(snapshots).order_by(snapshots.c.seq.desc())).all()
            return [
                StateSnapshot(seq=row.seq, version=row.version, state=row.state)
                for row in rows
                if hashlib.sha256(row.state).hexdigest() == row.checksum and _fits(connection, row.seq, row.entry)
            ]


def _fits(connection: Connection, seq: int, digest: str) -> bool:
    line = connection.execute(select(events).where(events.c.seq == seq)).mappings().first()
    return line is not None and _digest(line_of(line)) == digest


def _digest(line: Line) -> str:
    content = json.dumps([line.seq, line.kind, line.at, line.payload], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()
