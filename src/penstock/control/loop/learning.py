"""What runs teach: how fast they are, and how long they stand still at their start, at a change and at their end.

Reports of each run go into two meters; what these find is kept in the stores that every quote reads. A lesson is what
the platform did not believe before, and goes into the log, so that decisions that follow from it can be told again.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from penstock.control.loop.learning_stores import LearningStores
from penstock.control.state.records import JobRecord
from penstock.core import Costs, Curve, FailureReason, Report, ReportKind, Source, Span
from penstock.policies import weakest_source

if TYPE_CHECKING:
    from penstock.learn import Delay, DelayMeter, Measurement, ProgressMeter

_WATCHED_S = 5.0
_GLANCE_S = 1.5
"""Long enough for a run that ends, and for one of which nothing at all was known."""
_NEWS = 0.05
"""A measured rate is news when it differs by more than this share from the one the job is scheduled by."""
_NEWS_S = 1.0
"""A delay is news when what is expected of the next one changes by more than this and a fifth."""
_UNKNOWN_SPREAD = 0.2
"""The share by which the speed of a run may differ from the next that is known by its duration only."""
_DONE = (ReportKind.RELEASED, ReportKind.FINISHED)
"""All work on devices is done; what a run does without any teaches nothing about them."""
_ENDS = (*_DONE, ReportKind.FAILED, ReportKind.SUSPENDED)


@dataclass(frozen=True, slots=True)
class Learned:
    """What one look at a run has shown: all that is known of its speed now, and its costs if they are news.

    ``speed`` counts steps of the script, of which each is ``scale`` iterations of this job file; ``measured`` is the
    kind and the number of devices that were looked at.
    """

    speed: Curve | None = None
    costs: Costs | None = None
    scale: float = 1.0
    measured: tuple[int, str] = (0, "")

    @property
    def curve(self) -> Curve | None:
        """The speed in the unit of this job file."""
        return None if self.speed is None else self.speed.scaled(self.scale)

    def is_news(self, believed: Curve, scale: float = 1.0) -> bool:
        """Return whether a job that is scheduled by ``believed`` has to hear of the speed.

        It has to when other counts were measured than it knows of, even if the rate is as predicted: it is certain now.
        """
        if self.speed is None or self.speed.kinds != believed.kinds:
            return False
        count, kind = self.measured
        if _basis(believed, kind) != _basis(self.speed, kind):
            return True
        rate = believed.rate(count, kind)
        return abs(scale * self.speed.rate(count, kind) - rate) > _NEWS * rate


class Learning(Protocol):
    """What the loop asks of whoever learns from runs."""

    def learn(self, report: Report, record: JobRecord) -> Learned:
        """Take note of how fast a run is and how long it stands still; says what was not known before."""
        ...


@dataclass(slots=True)
class _Watch:
    """The two meters of one run, and the generation of workers they look at; ``since`` is when it was given devices."""

    speed: "ProgressMeter"
    delay: "DelayMeter"
    generation: int
    width: int
    since: float
    total: int | None = None
    silent: bool = True
    """Whether it has told no progress, and nobody has touched it."""

    def scale(self, work: float) -> float:
        """Iterations of the job file that a step of the script counts for."""
        return work / self.total if self.total else 1.0


@dataclass(slots=True)
class Learner:
    """Hears every report of every run."""

    stores: LearningStores
    _watches: dict[str, _Watch] = field(default_factory=dict)

    def learn(self, report: Report, record: JobRecord) -> Learned:
        """Take note; says what changed by it."""
        if report.run_id != record.run_id or not record.fingerprint:
            return Learned()
        watch = self._watches.get(report.run_id) or self._begin(report.run_id, record)
        self._saving(report, record, watch)
        speed = self._speed(report, record, watch)
        costs = self._delay(report, record, watch)
        if report.kind in _ENDS:
            self._watches.pop(report.run_id, None)
        kind, width = record.grant.kind if record.grant else "", report.width or watch.width
        return Learned(speed, costs, watch.scale(record.work), (width, kind))

    def _saving(self, report: Report, record: JobRecord, watch: _Watch) -> None:
        """What checkpoints cost, and how often what runs here fails; told to stop is no failure."""
        if report.kind is ReportKind.CHECKPOINTED and report.blocking_s is not None:
            self.stores.saving.saved(record.fingerprint, report.blocking_s)
            self.stores.learned()
        elif report.kind in _ENDS and not record.released:
            failed = report.kind is ReportKind.FAILED and report.reason != FailureReason.STOPPED
            self.stores.saving.ran(device_s=watch.width * max(report.at - watch.since, 0.0), failed=failed)
            self.stores.learned()

    def _begin(self, run_id: str, record: JobRecord) -> _Watch:
        from penstock.learn import DelayMeter, ProgressMeter

        fresh = record.stint == 1 and not record.failures
        since = max(record.granted_at, record.retry_at)
        meter = DelayMeter(since, 0 if fresh else -1)
        width = record.grant.width if record.grant else 0
        watch = self._watches[run_id] = _Watch(ProgressMeter(), meter, record.generation, width, since)
        return watch

    def _speed(self, report: Report, record: JobRecord, watch: _Watch) -> Curve | None:
        measured = self._measured(report, record, watch)
        if measured is None or record.grant is None:
            return None
        kind, width = record.grant.kind, report.width or watch.width
        self.stores.speeds.observe(record.fingerprint, kind, width, measured.rate, measured.seconds, measured.spread)
        self.stores.learned()
        return self.stores.curve(record.fingerprint, record.job.kinds)

    def _measured(self, report: Report, record: JobRecord, watch: _Watch) -> "Measurement | None":
        """The rate over the last stretch, once it is long enough to mean something."""
        meter = watch.speed
        if report.kind is ReportKind.RESIZED:
            meter.resized()
            watch.silent = False
        if report.kind is ReportKind.PROGRESS and report.step is not None:
            meter.report(report.at, report.step)
            watch.total = report.total or watch.total
            watch.silent = False
        if report.kind in _DONE and watch.silent:
            return self._from_its_end(report, record, watch)
        found = meter.measured()
        hurry = report.kind in _ENDS or weakest_source(record.job) is Source.GUESSED
        long_enough = _GLANCE_S if hurry else _WATCHED_S
        return meter.drain() if found is not None and found.seconds >= long_enough else None

    def _from_its_end(self, report: Report, record: JobRecord, watch: _Watch) -> "Measurement | None":
        """A run that told nothing and did everything: its work over its time."""
        from penstock.learn import Measurement

        seconds, whole = report.at - watch.since, record.stint == 1 or not record.job.resumable
        if not whole or seconds < _GLANCE_S:
            return None
        rate = record.work / seconds
        spread = _UNKNOWN_SPREAD * rate
        return Measurement(rate=rate, spread=spread, seconds=seconds, steps=round(record.work))

    def _delay(self, report: Report, record: JobRecord, watch: _Watch) -> Costs | None:
        from penstock.learn import Delay

        if report.kind is ReportKind.PROGRESS and report.step is not None:
            if watch.delay.first_step < 0:
                watch.delay.first_step = report.step - 1
            found = watch.delay.progress(report.at, report.step)
            return self._note(record, *found) if found else None
        if report.kind is ReportKind.RESIZED:
            return self._resized(report, record, watch)
        if report.kind in _DONE:
            took = watch.delay.ended(report.at, watch.total)
            return None if took is None else self._note(record, Delay.END, took)
        return None

    def _resized(self, report: Report, record: JobRecord, watch: _Watch) -> Costs | None:
        """In place nobody stops but for the pause itself; a restart shows when progress goes on."""
        from penstock.learn import Delay

        before, watch.width = watch.width, report.width or watch.width
        told = report.generation == record.generation and record.generation != watch.generation
        watch.generation = record.generation
        if not told or record.grant is None:
            return None
        if not watch.delay.has_begun:
            watch.delay.begins(Delay.START, record.granted_at)
            return None
        if not report.in_place:
            watch.delay.begins(Delay.RESIZE, record.granted_at)
            return None
        slow, fast = (record.job.curve.rate(width, record.grant.kind) for width in (before, watch.width))
        waited = max(0.0, report.at - record.granted_at) * max(0.0, 1.0 - slow / fast) if fast else 0.0
        return self._note(record, Delay.RESIZE, (report.pause_s or 0.0) + waited)

    def _note(self, record: JobRecord, what: "Delay", seconds: float) -> Costs | None:
        if record.grant is None:
            return None
        self.stores.delays.observe(record.fingerprint, record.grant.kind, what, seconds)
        self.stores.learned()
        costs = self.stores.costs(record.fingerprint, record.job.kinds)
        return costs if _is_news(costs, record.job.costs) else None


def _basis(curve: Curve, kind: str) -> tuple[Source, tuple[int, ...]] | None:
    scaling = curve.scaling(kind)
    return None if scaling is None else (scaling.source, scaling.measured)


def _is_news(found: Costs, believed: Costs) -> bool:
    pairs = ((found.start, believed.start), (found.resize, believed.resize), (found.end, believed.end))
    return any(_differ(new, old) for new, old in pairs)


def _differ(new: Span, old: Span) -> bool:
    both = ((new.likely, old.likely), (new.most, old.most))
    return any(abs(after - before) > max(_NEWS_S, 0.2 * before) for after, before in both)
