"""Makes jobs ready to be scheduled, outside of everybody's requests.

A job that needs an environment, or whose script can say how fast it will be, is recorded at once and then *prepared*:
the backend installs what it asks for, the script is asked for its model, and the job asks the scheduler with what is
known then. Level-triggered: every pass looks which jobs are being prepared and begins with those that nobody is busy
with, so a crash in the middle costs the work and not the job.
"""

import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from penstock.backends import Backend, PreparationError
from penstock.control.loop.job_reader import is_predictable, needs_plans
from penstock.control.loop.learning_stores import LearningStores
from penstock.control.state.entries import AboutJob, PreparationFailed, PreparationNoted, Prepared
from penstock.control.state.journal import Journal
from penstock.control.state.records import JobRecord
from penstock.core import InputError, Recipe
from penstock.tools import UnixUser
from penstock.wire import JobPhase

if TYPE_CHECKING:
    from penstock.spec import JobFile

_log = logging.getLogger(__name__)

AT_ONCE = 2
"""Jobs that are prepared at the same time; installing and importing take processor time from those that run."""


@dataclass(frozen=True, slots=True)
class Predictor:
    """Finds out how fast a job will be: by plans of the model it names, or by what its script says, in a child process.

    ``asks_scripts``: scripts may be imported here, because they run on this machine anyway, as ``user_of`` their tenant
    and with ``environ`` around them.
    """

    stores: LearningStores
    asks_scripts: bool = True
    user_of: Callable[[str], UnixUser | None] = lambda _: None
    environ: Mapping[str, str] = field(default_factory=lambda: MappingProxyType(dict(os.environ)))

    def predict(self, file: "JobFile", recipe: Recipe, tell: Callable[[str], None]) -> None:
        """Predict the job on every kind of device, where that tells more than is known."""
        if needs_plans(file, recipe.fingerprint, self.stores):
            tell(f"searching plans of {file.model}")
            tell(self.stores.plans.prepare(file, recipe.fingerprint, self.stores.usable(file.kinds)))
        elif self.asks_scripts and is_predictable(file, recipe.fingerprint, self.stores, self.user_of(recipe.tenant)):
            tell("asking its penstock_model how fast it will be")
            for kind in self.stores.unmeasured(recipe.fingerprint, file.kinds):
                tell(self._ask(file, recipe, kind))
        self.stores.learned()

    def _ask(self, file: "JobFile", recipe: Recipe, kind: str) -> str:
        from penstock.predict import PredictionRequest, counts_up_to

        capacity = self.stores.capacity(kind)
        most = file.most_devices(resumable=True) or capacity
        answer = self.stores.predictions.ask(
            PredictionRequest(
                fingerprint=recipe.fingerprint, script=str(file.script_path), batch=file.global_batch or 1, kind=kind,
                counts=counts_up_to(min(capacity, most)),
                profiles=str(self.stores.data_dir / "profiles"), threads=max(1, (os.cpu_count() or 1) // capacity),
                working_dir=recipe.working_dir,
            ),
            python=recipe.command[0], env={**self.environ, **dict(recipe.env)}, user=self.user_of(recipe.tenant),
        )  # fmt: skip
        return answer.reason or f"its speed on {kind} follows from its penstock_model"


def in_thread(work: Callable[[], None]) -> None:
    """Do something beside everything else; it does not keep the server from ending."""
    threading.Thread(target=work, name="prepare", daemon=True).start()


class Preparer:
    """Brings every job that is being prepared to the scheduler, or to its end. ``start`` runs work somewhere else."""

    def __init__(
        self,
        journal: Journal,
        backend: Backend,
        stores: LearningStores,
        *,
        predictor: Predictor | None = None,
        nudge: Callable[[], None] = lambda: None,
        start: Callable[[Callable[[], None]], None] = in_thread,
    ) -> None:
        self._journal = journal
        self._backend = backend
        self._stores = stores
        self._predictor = predictor
        self._nudge = nudge
        self._start = start
        self._busy: set[str] = set()

    def work(self) -> None:
        """Begin with jobs that nobody is busy with, in the order they came, as many as may be prepared at once."""
        with self._journal.reading() as state:
            waiting = [
                job_id
                for job_id, record in state.preparing.items()
                if record.mark is JobPhase.PREPARING and job_id not in self._busy
            ]
            begun = waiting[: max(0, AT_ONCE - len(self._busy))]
            self._busy.update(begun)
        for job_id in begun:
            self._start(lambda job_id=job_id: self._prepare(job_id))  # type: ignore[misc]

    def _prepare(self, job_id: str) -> None:
        try:
            with self._journal.reading() as state:
                record = state.preparing.get(job_id)
            if record is not None:
                self._record(self._outcome(record))
        except Exception:
            _log.exception("job %s could not be prepared; trying again", job_id)
        finally:
            with self._journal.lock:
                self._busy.discard(job_id)
            self._nudge()

    def _outcome(self, record: JobRecord) -> AboutJob:
        """What became of it: ready with what is known now, or failed with the reason."""
        try:
            recipe = self._backend.prepare(record.recipe, lambda text: self._tell(record.id, text))
            if self._predictor is not None:
                self._predictor.predict(_file(record), recipe, lambda text: self._tell(record.id, text))
        except InputError as error:
            tail = error.tail if isinstance(error, PreparationError) else ()
            reason = str(error).splitlines()[0]
            return PreparationFailed(at=self._journal.now(), job_id=record.id, reason=reason, tail=tail)
        except Exception as error:
            _log.warning("job %s cannot be prepared", record.id, exc_info=True)
            reason = f"{type(error).__name__}: {error}"
            return PreparationFailed(at=self._journal.now(), job_id=record.id, reason=reason)
        curve, costs = self._stores.expected(recipe.fingerprint, record.job.kinds)
        return Prepared(at=self._journal.now(), job_id=record.id, recipe=recipe, curve=curve, costs=costs)

    def _tell(self, job_id: str, text: str) -> None:
        self._record(PreparationNoted(at=self._journal.now(), job_id=job_id, text=text))

    def _record(self, entry: AboutJob) -> None:
        """Unless the job has been cancelled meanwhile."""
        with self._journal.reading() as state:
            if entry.job_id in state.preparing:
                self._journal.record(entry)


def _file(record: JobRecord) -> "JobFile":
    from penstock.spec import parse_job

    return parse_job(record.submission.spec)
