"""The audit log as the platform writes it: every change somebody made or tried to make, with its result."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from penstock.control.state.store import AuditEntry, AuditRepository, Principal
from penstock.core import PenstockError
from penstock.wire import RequestError

_log = logging.getLogger(__name__)
_WITHIN_S = 0.1
DONE = "done"


@dataclass(slots=True)
class AuditTarget:
    """What an action is about: a job, a node, a token, a tenant."""

    name: str


class AuditLog:
    """Writes entries within a tenth of a second, many in one commit: a busy platform pays for one, not for each."""

    def __init__(self, repository: AuditRepository, clock: Callable[[], float]) -> None:
        self._repository = repository
        self._clock = clock
        self._queue: deque[AuditEntry] = deque()
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._timer: threading.Timer | None = None

    def write(self, who: Principal, action: str, target: str = "", result: str = DONE) -> None:
        entry = AuditEntry(
            at=self._clock(), actor=who.name, token_id=who.id, tenant=who.tenant, address=who.address, action=action,
            target=target, result=result,
        )  # fmt: skip
        with self._lock:
            self._queue.append(entry)
            if self._timer is None:
                self._timer = threading.Timer(_WITHIN_S, self.flush)
                self._timer.daemon = True
                self._timer.start()

    @contextmanager
    def recorded(self, who: Principal, action: str, target: str = "") -> Iterator["AuditTarget"]:
        """Whatever comes of the block; a refusal by its code. The block may say better what it was about."""
        about = AuditTarget(target)
        try:
            yield about
        except PenstockError as error:
            self.write(who, action, about.name, error.code if isinstance(error, RequestError) else "invalid")
            raise
        self.write(who, action, about.name)

    def flush(self) -> None:
        """Everything said so far is in the database afterwards, or in the server's log where that cannot be."""
        with self._writing:
            with self._lock:
                entries, self._timer = list(self._queue), None
                self._queue.clear()
            if not entries:
                return
            try:
                self._repository.append(entries)
            except (SQLAlchemyError, PenstockError):
                _log.exception("audit entries could not be stored: %s", entries)

    def page(
        self, *, before: int | None, limit: int, tenant: str | None = None, action: str | None = None
    ) -> list[AuditEntry]:
        self.flush()
        return self._repository.page(before=before, limit=limit, tenant=tenant, action=action)
