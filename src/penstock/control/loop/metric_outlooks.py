"""What the metric of a job says about its end, found out as often as that is worth it, and what follows from it.

A forecast costs some milliseconds, so one is made when a hundredth of the work has been done since the last. It goes
into the log with the value that it rests on: reading the log again forecasts nothing. A job whose target has become
unlikely is told so; whether it also gives up its deadline or ends is its own setting.
"""

from collections.abc import Iterable
from dataclasses import replace

from penstock.control.state.entries import Cancelled, Edited, Entry, MetricReported
from penstock.control.state.records import JobRecord
from penstock.core import Amendment, BestEffort, Deadline, Outlook, Unlikely

_WORTH_IT = 0.01
_EARLY = 0.2
"""Before this share of the work nobody is given up for what the metric says."""


class MetricOutlooks:
    """Remembers at which step of each job the last forecast was made."""

    def __init__(self) -> None:
        self._made_at: dict[str, int] = {}

    def after(self, entry: MetricReported, record: JobRecord, total: int | None) -> Outlook | None:
        """What is expected once this value is known, in steps of the job file; ``total`` is what the script counts to.

        Nothing if that would hardly be news, or cannot be known yet.
        """
        most = float(total or record.work)
        last = self._made_at.get(record.id, 0)
        if record.until is None or 0 <= entry.step - last < _WORTH_IT * most:
            return None
        from penstock.learn import forecast_metric

        known = [point for point in record.metric if point[0] < entry.step]
        forecast = forecast_metric(record.until, [*known, (entry.step, entry.value)], most)
        if forecast is None:
            return None
        self._made_at[record.id] = entry.step
        return _scaled(forecast.outlook, record.work / most)

    def forget(self, jobs: Iterable[str]) -> None:
        """Keep only these."""
        kept = set(jobs)
        self._made_at = {job_id: step for job_id, step in self._made_at.items() if job_id in kept}


def consequences(entries: Iterable[Entry], record: JobRecord) -> list[Entry]:
    """What a job asked for itself where its target is unlikely, and was so the last time."""
    found = [entry for entry in entries if isinstance(entry, MetricReported) and entry.outlook is not None]
    if not found or record.until is None or record.outlook is None or not record.outlook.is_unlikely:
        return []
    entry, outlook = found[-1], found[-1].outlook
    assert outlook is not None
    if not outlook.is_unlikely or entry.step < _EARLY * record.work:
        return []
    chance = f"{record.until} will probably not be reached ({100 * outlook.reach:.0f} %)"
    match record.until.if_unlikely:
        case Unlikely.STOP:
            return [Cancelled(at=entry.at, job_id=record.id, reason=f"stopped, as its job file asks: {chance}")]
        case Unlikely.BEST_EFFORT if isinstance(record.job.goal, Deadline):
            return [_demoted(entry, record, chance)]
    return []


def _demoted(entry: MetricReported, record: JobRecord, chance: str) -> Edited:
    spec = {key: value for key, value in record.submission.spec.items() if key not in ("goal", "deadline")}
    return Edited(
        at=entry.at, job_id=record.id, amendment=Amendment(goal=BestEffort()), spec=spec, name=record.submission.name,
        what=f"at best effort from now on, as its job file asks: {chance}",
    )  # fmt: skip


def _scaled(outlook: Outlook, factor: float) -> Outlook:
    if factor == 1.0:
        return outlook
    return replace(
        outlook, expected=outlook.expected * factor, median=outlook.median * factor, safe=outlook.safe * factor
    )
