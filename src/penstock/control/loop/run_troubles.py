"""What goes wrong with single runs: contained, so that a pass goes on with the others, and told by name.

Trouble is told where people look for it: in the server's log and in the story of the job when it is new, and under
``/readyz`` for as long as it lasts. The same trouble in every pass is told once.
"""

import contextlib
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.control.state.entries import RunNoted
from penstock.control.state.journal import Journal
from penstock.core import clean_text
from penstock.wire import UnavailableError

_log = logging.getLogger(__name__)
MOST_NOTES = 5
"""Notes that one run adds to the story of its job: what comes after them stands in the log only."""
_MOST_NOTICES = 20
_SHOWN = 500


def job_of_run(run_id: str) -> str:
    """The job whose stint a run is."""
    return run_id.rpartition(".")[0]


@dataclass(slots=True)
class RunTroubles:
    """The troubles of the runs that are there."""

    journal: Journal
    _lasting: dict[tuple[str, str], str] = field(default_factory=dict)
    _notes: dict[str, int] = field(default_factory=dict)

    @property
    def notices(self) -> list[str]:
        """What lasts, one sentence for each run."""
        return [f"run {run_id}: {what}" for (run_id, _), what in list(self._lasting.items())[:_MOST_NOTICES]]

    @contextmanager
    def contained(self, run_id: str, doing: str) -> Iterator[None]:
        """Whatever fails in here is this run's trouble and nobody else's, unless the store is away."""
        try:
            yield
        except UnavailableError:
            raise
        except Exception as error:
            what = f"{doing} failed: {type(error).__name__}: {clean_text(str(error), _SHOWN)}"
            if self._lasting.get((run_id, doing)) != what:
                _log.exception("run %s: %s", run_id, what)
                self.note(run_id, what)
            self._lasting[run_id, doing] = what
        else:
            self.over(run_id, doing)

    def lasts(self, run_id: str, doing: str, what: str) -> None:
        """Something is wrong until :meth:`over` is called; told when it is new."""
        if self._lasting.get((run_id, doing)) != what:
            _log.warning("run %s: %s", run_id, what)
            self.note(run_id, what)
        self._lasting[run_id, doing] = what

    def over(self, run_id: str, doing: str) -> None:
        self._lasting.pop((run_id, doing), None)

    def note(self, run_id: str, text: str) -> None:
        """Add to the story of the job, as long as the run has not done so too often."""
        told = self._notes.get(run_id, 0)
        if told >= MOST_NOTES:
            return
        self._notes[run_id] = told + 1
        with contextlib.suppress(Exception), self.journal.reading() as state:
            job_id = job_of_run(run_id)
            if job_id in state.jobs:
                self.journal.record(RunNoted(at=self.journal.now(), job_id=job_id, run_id=run_id, text=text))

    def forget_all_but(self, run_ids: Iterable[str]) -> None:
        """Of runs that are gone nothing is kept."""
        kept = set(run_ids)
        self._lasting = {key: what for key, what in self._lasting.items() if key[0] in kept}
        self._notes = {run_id: count for run_id, count in self._notes.items() if run_id in kept}
