"""Jobs of a past as entries tell of them: how they asked, and what people and runs did to them by the clock."""

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from penstock.control.state.entries import (
    Cancelled,
    CostsLearned,
    CurveLearned,
    Edited,
    Paused,
    Prepared,
    ResumableLearned,
    Resumed,
    RunFailed,
    RunReleased,
    Submitted,
    Unblocked,
)
from penstock.core import (
    CostsChanged,
    CurveChanged,
    Event,
    Job,
    JobAmended,
    JobCancelled,
    JobError,
    JobPaused,
    JobResumed,
    ResumableChanged,
    WorkerFailed,
)


@dataclass(slots=True)
class JobCourse:
    """One job: how it ``asked`` the scheduler, when, and what is known of it in the end."""

    submission: Submitted
    job: Job
    asked: Job | None = None
    asked_at: float = math.nan
    ready_at: float = math.nan
    """When it was there and what it came after was over."""
    failed_at: list[float] = field(default_factory=list)
    """When a run of it failed and was tried again."""
    released: bool = False
    """Whether it has given its devices back for good: what fails then takes none from it."""

    @property
    def fingerprint(self) -> str:
        return self.submission.recipe.fingerprint

    def ask(self, at: float) -> None:
        self.asked, self.asked_at = self.job, at


class JobCourses:
    """All jobs of a past. Entries go in in order; :attr:`events` has what happened to jobs that had asked."""

    def __init__(self, job_ids: Collection[str]) -> None:
        self.by_id: dict[str, JobCourse] = {}
        self.events: list[Event] = []
        self._wanted = frozenset(job_ids)
        self._kin: dict[str, list[JobCourse]] = {}

    def take(self, entry: Any) -> None:
        handler = self._HANDLERS.get(type(entry))
        if handler is not None:
            handler(self, entry)

    def _submitted(self, entry: Submitted) -> None:
        if entry.job.id not in self._wanted:
            return
        course = self.by_id[entry.job.id] = JobCourse(entry, entry.job, ready_at=entry.at)
        if course.fingerprint:
            self._kin.setdefault(course.fingerprint, []).append(course)
        if not (entry.after or entry.preparing):
            course.ask(entry.at)

    def _unblocked(self, entry: Unblocked) -> None:
        if (course := self.by_id.get(entry.job_id)) is not None:
            course.ready_at = entry.at

    def _prepared(self, entry: Prepared) -> None:
        if (course := self.by_id.get(entry.job_id)) is not None:
            course.job = replace(course.job, curve=entry.curve, costs=entry.costs)
            course.ask(entry.at)

    def _steered(self, entry: Cancelled | Paused | Resumed) -> None:
        for course in self._asked(entry.job_id):
            match entry:
                case Cancelled():
                    self.events.append(JobCancelled(entry.at, course.job.id))
                case Paused():
                    self.events.append(JobPaused(entry.at, course.job.id))
                case Resumed():
                    self.events.append(JobResumed(entry.at, course.job.id, entry.goal))
                    course.job = course.job if entry.goal is None else replace(course.job, goal=entry.goal)

    def _edited(self, entry: Edited) -> None:
        if (course := self.by_id.get(entry.job_id)) is None:
            return
        try:
            course.job = entry.amendment.applied_to(course.job)
        except JobError:
            return
        if course.asked is not None:
            self.events.append(JobAmended(entry.at, course.job.id, entry.amendment))

    def _failed(self, entry: RunFailed) -> None:
        for course in self._asked(entry.job_id):
            if entry.retry_at is not None and not course.released:
                course.failed_at.append(entry.at)
                self.events.append(WorkerFailed(entry.at, course.job.id))

    def _released(self, entry: RunReleased) -> None:
        for course in self._asked(entry.job_id):
            course.released = True

    def _curve_learned(self, entry: CurveLearned) -> None:
        kin = self._kin.get(entry.fingerprint, ()) if entry.fingerprint else self._asked(entry.job_id)
        for course in kin:
            if course.job.curve.kinds == entry.curve.kinds and course.asked is not None:
                course.job = replace(course.job, curve=entry.curve)
                self.events.append(CurveChanged(entry.at, course.job.id, entry.curve))

    def _costs_learned(self, entry: CostsLearned) -> None:
        for course in self._kin.get(entry.fingerprint, ()):
            if course.asked is not None:
                course.job = replace(course.job, costs=entry.costs)
                self.events.append(CostsChanged(entry.at, course.job.id, entry.costs))

    def _resumable_learned(self, entry: ResumableLearned) -> None:
        for course in self._asked(entry.job_id):
            course.job = replace(course.job, resumable=True)
            self.events.append(ResumableChanged(entry.at, course.job.id, resumable=True))

    def _asked(self, job_id: str) -> Iterable[JobCourse]:
        course = self.by_id.get(job_id)
        return () if course is None or course.asked is None else (course,)

    def drop_over(self, job_id: str) -> None:
        """Nothing that is learned later concerns a job that is over."""
        course = self.by_id.get(job_id)
        if course is not None and course in (kin := self._kin.get(course.fingerprint, [])):
            kin.remove(course)

    _HANDLERS: ClassVar[dict[type, Callable[..., None]]] = {
        Submitted: _submitted,
        Unblocked: _unblocked,
        Prepared: _prepared,
        Cancelled: _steered,
        Paused: _steered,
        Resumed: _steered,
        Edited: _edited,
        RunFailed: _failed,
        RunReleased: _released,
        CurveLearned: _curve_learned,
        CostsLearned: _costs_learned,
        ResumableLearned: _resumable_learned,
    }


JOB_KINDS = tuple(kind.__name__ for kind in JobCourses._HANDLERS)
"""Kinds of entries that tell something of jobs."""
