"""What about a job is worth telling somebody: promises given, at risk and broken, and ends."""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penstock.control.state.records import JobRecord
from penstock.core import LATE_TOLERANCE_S, Verdict, format_duration
from penstock.wire import JobPhase, stamp


class NoticeKind(StrEnum):
    """What happened, in the words of settings and job files."""

    PROMISED = "promised"
    AT_RISK = "at_risk"
    BROKEN = "broken"
    FINISHED = "finished"
    FAILED = "failed"
    DECLINED = "declined"
    REGRESSED = "regressed"
    UNREADABLE = "unreadable"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One thing to tell. ``key`` is the same for the same thing: with another deadline a promise is another one."""

    kind: NoticeKind
    key: str
    job_id: str
    name: str
    tenant: str
    text: str
    at: float

    def document(self) -> dict[str, Any]:
        """As a webhook gets it; ``id`` is the same if it comes twice."""
        moment = stamp(self.at)
        return {
            "id": f"{self.job_id}:{self.key}", "event": self.kind.value, "job_id": self.job_id, "name": self.name,
            "tenant": self.tenant, "text": self.text, "at": None if moment is None else moment.isoformat(),
        }  # fmt: skip


def notices_of(record: JobRecord, expected_at: float | None, now: float) -> Iterator[Notice]:
    """Everything that is true of a job now and worth telling, whether or not it was told before."""
    who = f"{record.submission.name} ({record.id})"
    if (evaluates := record.submission.evaluates) is not None:
        if record.worse:
            text = f"{who}: the checkpoint of step {evaluates.step} got worse: {'; '.join(record.worse)}"
            yield _notice(record, NoticeKind.REGRESSED, "", text, now)
        return
    if record.unreadable:
        mark = hashlib.sha256(record.unreadable.encode()).hexdigest()[:12]
        yield _notice(record, NoticeKind.UNREADABLE, mark, f"{who}: {record.unreadable}", now)
    deadline = record.job.deadline
    if record.quote is not None and record.quote.verdict is Verdict.PROMISED and math.isfinite(deadline):
        due = f"{stamp(deadline):%Y-%m-%d %H:%M:%S} UTC"
        mark = f"{deadline:.0f}"
        yield _notice(record, NoticeKind.PROMISED, mark, f"{who} is promised by {due}", now)
        end = now if record.ended_at is None else record.ended_at
        if end > deadline + LATE_TOLERANCE_S and record.mark in (None, JobPhase.FINISHED):
            late = format_duration(end - deadline)
            yield _notice(record, NoticeKind.BROKEN, mark, f"{who} missed its promise of {due}: {late} late", now)
        elif not record.over and expected_at is not None and expected_at > deadline:
            late = format_duration(expected_at - deadline)
            yield _notice(record, NoticeKind.AT_RISK, mark, f"{who} may end {late} after its promise of {due}", now)
    if record.mark is not None and record.over:
        answered = record.quote.reason if record.quote is not None and record.mark is not JobPhase.FINISHED else ""
        said = f": {reason}" if (reason := record.reason or answered) else ""
        yield _notice(record, NoticeKind(record.mark.value), "", f"{who} {record.mark}{said}", now)


def _notice(record: JobRecord, kind: NoticeKind, mark: str, text: str, at: float) -> Notice:
    return Notice(
        kind=kind, key=f"{kind}:{mark}" if mark else kind.value, job_id=record.id, name=record.submission.name,
        tenant=record.job.tenant, text=text, at=at,
    )  # fmt: skip
