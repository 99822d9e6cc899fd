"""The state as of an entry, so that a start does not have to read the whole log again.

A snapshot is only a shortcut. It says which entry it stands after and which code made it; where any of that does not
fit what is there, it is as if there were none, and the log is read from its beginning.
"""

import hashlib
import json
from dataclasses import dataclass

from sqlalchemy import Engine, delete, insert, select

from penstock.control.state.store.log import Line
from penstock.control.state.store.tables import events, snapshots


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """``state`` after entry ``seq``, made by the code of this ``version``."""

    seq: int
    version: str
    state: bytes


class SnapshotRepository:
    """The newest snapshot; older ones are of no use."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def keep(self, snapshot: Snapshot) -> None:
        """Put a snapshot in the place of the one before."""
        with self._engine.begin() as connection:
            line = connection.execute(select(events).where(events.c.seq == snapshot.seq)).mappings().first()
            if line is None:
                return
            connection.execute(delete(snapshots))
            connection.execute(
                insert(snapshots).values(
                    seq=snapshot.seq, version=snapshot.version, state=snapshot.state,
                    entry=_digest(Line(**{name: line[name] for name in Line.__slots__})),
                    checksum=hashlib.sha256(snapshot.state).hexdigest(),
                )
            )  # fmt: skip

    def newest(self, version: str) -> Snapshot | None:
        """The snapshot, if it is whole, of this version, and the log still has the entry it stands after."""
        with self._engine.connect() as connection:
            row = connection.execute(select(snapshots).order_by(snapshots.c.seq.desc()).limit(1)).first()
            if row is None or row.version != version or hashlib.sha256(row.state).hexdigest() != row.checksum:
                return None
            line = connection.execute(select(events).where(events.c.seq == row.seq)).mappings().first()
        if line is None or _digest(Line(**{name: line[name] for name in Line.__slots__})) != row.entry:
            return None
        return Snapshot(seq=row.seq, version=row.version, state=row.state)


def _digest(line: Line) -> str:
    content = json.dumps([line.seq, line.kind, line.at, line.payload], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()
