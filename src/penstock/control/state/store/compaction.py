"""The log without what nobody reads any more.

Decisions and ticks are needed to read a state from the log, and by nobody else. Once two snapshots stand after them
they can go. What happened (what history, reports, stories and what-if read) stays; entries that only corrected a figure
go when they are old. How far the log was compacted is kept beside it: from then on it can only be read from a snapshot.
"""

from collections.abc import Sequence

from sqlalchemy import delete, func, insert, select

from penstock.control.state.store.database import Database
from penstock.control.state.store.tables import compactions, events, snapshots

NEWEST_KEPT = 10_000
"""So many of the newest entries stay whole, whatever snapshots there are."""
AT_ONCE = 1_000
"""Entries that are removed in one transaction at most: nobody who writes shall wait for long."""

_IN_ONE = 500


class Compaction:
    """Removes entries of some kinds, a few at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def step(self, kinds: Sequence[str]) -> int:
        """Remove some more, if there is something to remove; returns how many."""
        done, removed = self.progress()
        limit = self._limit()
        if limit <= done + 1:
            return 0
        with self._database.begin() as connection:
            span = select(events.c.seq).where(events.c.seq > done, events.c.seq < limit).order_by(events.c.seq)
            reached = connection.scalars(span.limit(AT_ONCE)).all()
            up_to = reached[-1] if len(reached) == AT_ONCE else limit - 1
            gone = connection.execute(
                delete(events).where(events.c.seq > done, events.c.seq <= up_to, events.c.kind.in_(kinds))
            ).rowcount
            connection.execute(delete(compactions))
            connection.execute(insert(compactions).values(up_to=up_to, removed=removed + gone))
        return gone

    def _limit(self) -> int:
        """The first entry that has to stay: one snapshot is not enough to let go of anything."""
        with self._database.connect() as connection:
            kept = connection.scalars(select(snapshots.c.seq).order_by(snapshots.c.seq)).all()
            newest = connection.scalar(select(func.max(events.c.seq))) or 0
        return min(kept[0], newest - NEWEST_KEPT) if len(kept) > 1 else 0

    def forget_old(self, kinds: Sequence[str], before: float) -> int:
        """Remove some entries of these kinds that are older than that and in the compacted part; returns how many."""
        done, _ = self.progress()
        old = select(events.c.seq).where(events.c.kind.in_(kinds), events.c.at < before, events.c.seq <= done)
        with self._database.connect() as connection:
            found = connection.scalars(old.limit(AT_ONCE)).all()
        if not found:
            return 0
        with self._database.begin() as connection:
            for position in range(0, len(found), _IN_ONE):
                connection.execute(delete(events).where(events.c.seq.in_(found[position : position + _IN_ONE])))
        return len(found)

    def progress(self) -> tuple[int, int]:
        """Up to which entry the log was compacted, and how many were removed in all."""
        with self._database.connect() as connection:
            row = connection.execute(select(compactions)).first()
        return (0, 0) if row is None else (row.up_to, row.removed)
