"""The right to write to a database: a lease that is renewed, and an epoch that fences whoever lost it.

One row says who writes. Whoever claims it raises the epoch; every write is made in a transaction that first looks
whether the epoch is still its own, so a server that was stopped, cut off or believed dead cannot write one entry beside
its successor. A claimant does not compare clocks of two machines: it watches whether the holder still renews, for as
long as a lease lasts. The epoch lives in the database, so restarting the database takes nobody's lease away.
"""

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from sqlalchemy import Connection, Engine, Row, bindparam, insert, select, text, update

from penstock.control.state.store.faults import told
from penstock.control.state.store.tables import leases
from penstock.core import InputError, PenstockError
from penstock.wire import UnavailableError

_log = logging.getLogger(__name__)
LEASE_S = 10.0
"""A holder that has not renewed for so long is taken to be gone."""
RENEW_S = 2.0
SILENCE_S = 5.0
"""A database that has not answered for so long is not asked again by requests until it does."""
_TURN_S = 30.0
_LOOK_S = 0.2
_WRITER = "writer"
_OLD_LOCK = 0x70656E73
"""The advisory lock by which servers of earlier versions hold a PostgreSQL database ("pens")."""


class LeaseLostError(UnavailableError):
    """Another server has claimed the database."""

    exit_code: ClassVar[int] = 3


class Lease:
    """One server's claim on one database. ``patience_s`` is how long a silent holder is watched before it is replaced;
    a server that holds the lock of its data directory knows that an earlier holder of the same name is gone."""

    def __init__(
        self, engine: Engine, holder: str = "", patience_s: float = 0.0, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.holder = holder or f"{socket.gethostname()} process {os.getpid()} {secrets.token_hex(4)}"
        self.epoch = 0
        self.lost = False
        self._engine = engine
        self._patience_s = patience_s
        self._monotonic = monotonic
        self._renewed_at: float | None = None
        """When the database last answered the keeper; nothing while nobody keeps the lease."""

        self._turn = threading.Lock() if engine.dialect.name == "sqlite" else None

    def claim(self) -> None:
        """Become the writer, or be refused by one that is alive."""
        began, seen = self._monotonic(), None
        while True:
            found = self._try_claim(seen if self._monotonic() - began >= LEASE_S else None)
            if found is None:
                return
            if self._patience_s < LEASE_S or (seen is not None and found != seen):
                raise InputError(
                    f"another Penstock server uses this database ({found[2]})", "one server per database",
                    "Stop the other one, or use its API",
                )  # fmt: skip
            if seen is None:
                _log.warning("the database is held by %s; waiting whether it still lives", found[2])
            seen = found
            time.sleep(_LOOK_S)

    def _try_claim(self, silent: tuple[int, int, str] | None) -> tuple[int, int, str] | None:
        """Take the lease if it is free, ours, or as ``silent`` as it was; else who has it, as (epoch, beats, name)."""
        with told(self._engine), self._engine.begin() as connection:
            self._refuse_old_server(connection)
            row = connection.execute(select(leases).where(leases.c.name == _WRITER)).first()
            if row is None:
                self.epoch = 1
                connection.execute(insert(leases).values(name=_WRITER, epoch=1, holder=self.holder, beats=0))
                return None
            found = (row.epoch, row.beats, row.holder)
            if row.holder not in ("", self.holder) and found != silent:
                return found
            return None if self._take_over(connection, row) else found

    def _take_over(self, connection: Connection, row: Row[Any]) -> bool:
        same = leases.c.name == _WRITER, leases.c.epoch == row.epoch, leases.c.beats == row.beats
        taken = connection.execute(
            update(leases).where(*same).values(epoch=row.epoch + 1, holder=self.holder, beats=row.beats + 1)
        )
        self.epoch = row.epoch + 1
        return bool(taken.rowcount)

    def _refuse_old_server(self, connection: Connection) -> None:
        if connection.dialect.name != "postgresql":
            return
        if not connection.scalar(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": _OLD_LOCK}):
            raise InputError(
                "another Penstock server uses this database", "one server per database",
                "Stop the other one, or use its API",
            )  # fmt: skip

    def fence(self, connection: Connection) -> None:
        """Let a transaction go on only while the epoch is ours; nobody can claim the lease before it ends.

        SQLite begins a transaction with its first change, so there the row is written as it is.
        """
        self.check()
        mine = {"mine": self.epoch}
        if connection.dialect.name == "postgresql":
            held = connection.execute(_LOCKED, mine).first() is not None
        else:
            held = bool(connection.execute(_WRITTEN_AGAIN, mine).rowcount)
        if not held:
            self._lose()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """To write, one after the other where the database has one writer at a time: only those of other processes are
        then met there, and a lock of theirs is noticed soon."""
        if self._turn is None:
            yield
            return
        if not self._turn.acquire(timeout=_TURN_S):
            raise UnavailableError("others are writing to the database", "a database that answers", "Try again")
        try:
            yield
        finally:
            self._turn.release()

    def check(self) -> None:
        """Raises once the lease is known to be lost."""
        if self.lost:
            raise _lost_error()

    def check_fresh(self) -> None:
        """Raises also while nobody can know whether the lease is still ours: nothing in the world may be changed."""
        self.check()
        if self.silent_s > LEASE_S:
            raise UnavailableError(
                f"the database has not answered for {self.silent_s:.0f} s", "a database that answers",
                "Look after the database; everything goes on when it is back",
            )  # fmt: skip

    @property
    def silent_s(self) -> float:
        """For how long the database has not answered; 0 while nobody asks it regularly."""
        return 0.0 if self._renewed_at is None else max(0.0, self._monotonic() - self._renewed_at - RENEW_S)

    def renew(self) -> None:
        """Show that we live."""
        with told(self._engine), self.turn(), self._engine.begin() as connection:
            mine = leases.c.name == _WRITER, leases.c.epoch == self.epoch
            if not connection.execute(update(leases).where(*mine).values(beats=leases.c.beats + 1)).rowcount:
                self._lose()

    def release(self) -> None:
        """The next server need not wait."""
        if self.lost or not self.epoch:
            return
        with told(self._engine), self._engine.begin() as connection:
            mine = leases.c.name == _WRITER, leases.c.epoch == self.epoch
            connection.execute(update(leases).where(*mine).values(holder=""))
        self.epoch = 0

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Renewed in the background for as long as the context lasts."""
        stop = threading.Event()
        self._renewed_at = self._monotonic()
        keeper = threading.Thread(target=self._keep, args=(stop,), name="lease", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            stop.set()
            keeper.join(SILENCE_S)
            self._renewed_at = None

    def _keep(self, stop: threading.Event) -> None:
        while not stop.wait(RENEW_S) and not self.lost:
            try:
                self.renew()
            except LeaseLostError:
                return
            except Exception as error:
                reason = error if isinstance(error, PenstockError) else f"{type(error).__name__}: {error}"
                _log.warning("the lease of the database could not be renewed: %s", reason)
            else:
                self._renewed_at = self._monotonic()

    def _lose(self) -> None:
        if not self.lost:
            self.lost = True
            _log.critical("another server has claimed the database: this one writes nothing any more and ends")
        raise _lost_error()


_MINE = leases.c.name == _WRITER, leases.c.epoch == bindparam("mine")
_LOCKED = select(leases.c.epoch).where(*_MINE).with_for_update(read=True)
_WRITTEN_AGAIN = update(leases).where(*_MINE).values(epoch=bindparam("mine"))
"""What every transaction begins with, made once."""


def _lost_error() -> LeaseLostError:
    return LeaseLostError(
        "another Penstock server has claimed the database; this one writes nothing any more", "one server per database",
        "Ask the other server; jobs go on under it",
    )  # fmt: skip
