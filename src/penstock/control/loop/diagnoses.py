"""Failures that were recorded and are not decided yet: each waits for its diagnosis, but not for ever.

The diagnosis says whether the same would happen again and which node is to blame, so the decision about a failed run
waits for it. The run's devices are held meanwhile. Level-triggered like everything here: the state knows which
failures wait, so a server that was killed goes on with them, once more each.
"""

from collections.abc import Callable
from dataclasses import replace

from penstock.control.loop.preparation import in_thread
from penstock.control.loop.run_diagnosis import RunDiagnoser
from penstock.control.loop.run_troubles import RunTroubles
from penstock.control.state.entries import FailureReported
from penstock.control.state.journal import Journal
from penstock.control.state.records import JobRecord
from penstock.core import Diagnosis, Report

AT_ONCE = 2
"""Diagnoses at the same time, each of another tenant: one tenant's failures delay those of others by little."""
PATIENCE_S = 60.0
"""How long a failure waits for its diagnosis to begin."""
_TOO_LATE = Diagnosis(cause=f"the diagnosis did not begin within {PATIENCE_S:g} s: other failures came first")
_INTERRUPTED = Diagnosis(cause="the diagnosis was interrupted twice by an end of the server and is not tried again")


class Diagnoses:
    """Begins diagnoses outside of the loop, and hands each to ``decide`` when it is there."""

    def __init__(
        self,
        journal: Journal,
        diagnoser: RunDiagnoser,
        decide: Callable[[Report, Diagnosis | None], None],
        troubles: RunTroubles,
        nudge: Callable[[], None],
        start: Callable[[Callable[[], None]], None] = in_thread,
    ) -> None:
        self._journal = journal
        self._diagnoser = diagnoser
        self._decide = decide
        self._troubles = troubles
        self._nudge = nudge
        self._start = start
        self._under_way: dict[str, str] = {}
        self._found: dict[str, Diagnosis | None] = {}
        with journal.reading():
            self._left_over = {failing.run_id for failing, _ in self._waiting()}

    def look(self) -> None:
        """Begin what may begin, and decide what can be decided."""
        with self._journal.reading():
            waiting = self._waiting()
        for failing, record in waiting:
            self._begin(failing, record)
        for failing, _ in waiting:
            if failing.run_id in self._found:
                with self._troubles.contained(failing.run_id, "deciding what follows from its failure"):
                    self._decide(failing.report, self._found.pop(failing.run_id))

    def _waiting(self) -> list[tuple[FailureReported, JobRecord]]:
        """The failures that are not decided yet, the oldest first."""
        found = [(each.failing, each.copy()) for each in self._journal.state.engaged.values() if each.failing]
        return sorted(found, key=lambda one: one[0].at)

    def _begin(self, failing: FailureReported, record: JobRecord) -> None:
        run_id, tenant, now = failing.run_id, record.job.tenant, self._journal.now()
        if run_id in self._under_way or run_id in self._found:
            return
        if run_id in self._left_over:
            self._left_over.discard(run_id)
            if failing.again:
                self._found[run_id] = _INTERRUPTED
                return
            self._journal.record(replace(failing, at=now, again=True))
        elif now - failing.at > PATIENCE_S:
            self._found[run_id] = _TOO_LATE
            return
        if len(self._under_way) < AT_ONCE and tenant not in list(self._under_way.values()):
            self._under_way[run_id] = tenant
            self._start(lambda: self._examine(failing.report, record))

    def _examine(self, report: Report, record: JobRecord) -> None:
        try:
            self._found[report.run_id] = self._diagnoser.diagnosis(report, record)
        finally:
            self._found.setdefault(report.run_id, None)
            del self._under_way[report.run_id]
            self._nudge()
