"""Commands beside the workers of jobs, on behalf of a principal: who may, and whose terminal it is."""

import secrets
from collections.abc import Callable

from penstock.control.loop.reconciler import Reconciler
from penstock.control.platform.access import Action, require
from penstock.control.platform.audit import AuditLog
from penstock.control.platform.job_processes import JobProcess, TerminalProcess, environment_of
from penstock.control.state.records import JobRecord
from penstock.control.state.store import Principal
from penstock.wire import ExecRequest, KeysRequest, MissingError

Find = Callable[[str, Principal], JobRecord]


class JobCommands:
    """Starts commands; those in terminals are known by their sessions for as long as they last."""

    def __init__(self, find: Find, reconciler: Reconciler, audit: AuditLog) -> None:
        self._find = find
        self._reconciler = reconciler
        self._audit = audit
        self._terminals: dict[str, tuple[str, TerminalProcess]] = {}

    def start(self, job_id: str, wanted: ExecRequest, who: Principal) -> tuple[JobProcess, str]:
        """A command that begins when its output is read, and its session if it has a terminal."""
        with self._audit.recorded(who, "exec", job_id) as about:
            record = self._find(job_id, require(who, Action.EXECUTE))
            around, run = environment_of(record, self._reconciler), record.run_id
            about.name = f"{job_id}: {wanted.command[0][:100]}"
        current = _is_current(record, run)
        if wanted.terminal is None:
            return JobProcess(wanted.command, around, current), ""
        process, session = TerminalProcess(wanted.command, around, current, wanted.terminal), secrets.token_urlsafe(16)
        self._terminals[session] = (who.id, process)
        return process, session

    def type(self, session: str, keys: KeysRequest, who: Principal) -> None:
        """Keys for a terminal of one's own."""
        require(who, Action.EXECUTE)
        owner, process = self._terminals.get(session, ("", None))
        if process is None or owner != who.id:
            raise MissingError("There is no such session", "one of yours that is not over", "Start another")
        process.type(keys.text, keys.size)

    def over(self, process: JobProcess, session: str) -> None:
        """Nobody listens to a command any more."""
        process.end()
        self._terminals.pop(session, None)


def _is_current(record: JobRecord, run: str) -> Callable[[], bool]:
    return lambda: record.run_id == run and not record.over
