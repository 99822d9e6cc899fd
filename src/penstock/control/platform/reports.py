"""Reports about real runs: what the log and the state say, gathered for whoever may see it."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from penstock.control.platform.past_moments import past_moment
from penstock.control.reports.job import job_report
from penstock.control.reports.period import (
    KINDS,
    MOST_BROKEN,
    STEPS,
    TROUBLES,
    Evidence,
    Happening,
    JobFacts,
    period_report,
)
from penstock.control.state.entries import Resized, RunFailed
from penstock.control.state.journal import Journal
from penstock.control.state.reading import readable
from penstock.control.state.records import JobRecord
from penstock.control.state.store import DamagedError, Line, Principal
from penstock.core import Cluster
from penstock.scheduler import Entry as Note
from penstock.wire import JobReport, PeriodReport, RequestError

_MOST_LINES = 200_000


class Reports:
    """Gathers the evidence; :mod:`penstock.control.reports` makes the figures of it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def period(self, who: Principal, since: str, until: str | None, tenant: str | None) -> PeriodReport:
        """``since`` and ``until`` are dates, or durations before now; the end is never in the future."""
        now = self._journal.now()
        end = min(past_moment(until, now), now) if until else now
        start = max(0.0, past_moment(since, end))
        if start >= end:
            raise RequestError(
                f"The period from {since} to {until or 'now'} is empty", "a beginning before the end", "Try since=7d"
            )
        only = "" if tenant is not None and not who.may_see(tenant) else who.sees or tenant
        evidence = self._evidence(start, end, only)
        return period_report(replace(evidence, fairness=self._fairness(now)) if end == now else evidence)

    def _fairness(self, now: float) -> dict[str, float]:
        """Of every tenant over the last day."""
        with self._journal.reading() as state:
            table = state.scheduler.tenants(now)
        return dict(zip(table.names, table.fairness.tolist(), strict=True))

    def job(self, who: Principal, record: JobRecord) -> JobReport:
        journal = self._journal
        with journal.reading() as state:
            facts, cluster = JobFacts.of(record, state, now := journal.now()), state.scheduler.cluster
            story = state.story(record).entries
        evidence = Evidence(
            since=0.0, until=now, tenant=who.sees, jobs=[facts], cluster=cluster,
            holdings=journal.store.history.holdings(-math.inf, now, job_id=record.id),
            happenings=list(self._happenings_of(record.id)), stories={record.id: story},
        )  # fmt: skip
        return job_report(facts, evidence)

    def _evidence(self, since: float, until: float, tenant: str | None) -> Evidence:
        jobs, cluster = self._facts(since, until, tenant)
        holdings = self._journal.store.history.holdings(since, until)
        broken = [job.id for job in jobs if job.promise == "broken"]
        return Evidence(
            since=since, until=until, tenant=tenant, jobs=jobs, cluster=cluster,
            holdings=[holding for holding in holdings if tenant in (None, holding.tenant)],
            happenings=self._happenings(since, until, tenant, broken),
            stories={job_id: self._story(job_id) for job_id in broken[-MOST_BROKEN:]},
        )  # fmt: skip

    def _facts(self, since: float, until: float, tenant: str | None) -> tuple[list[JobFacts], Cluster]:
        """Jobs that are over from their outcomes, the others from the state, in order of submission."""
        with self._journal.reading() as state:
            records = [record for record in state.jobs.values() if tenant in (None, record.job.tenant)]
            there = [JobFacts.of(record, state, until) for record in records]
            cluster = state.scheduler.cluster
        known = {job.id for job in there}
        over = map(JobFacts.of_outcome, self._journal.store.outcomes.between(since, until, tenant))
        return [*(job for job in over if job.id not in known), *there], cluster

    def _happenings(self, since: float, until: float, tenant: str | None, broken: Sequence[str]) -> list[Happening]:
        """Everything that went wrong or was resized; of what else happened, what concerns jobs with trouble."""
        history = self._journal.store.history
        lines = history.lines(TROUBLES, since=since, tenant=tenant, limit=_MOST_LINES)
        failed = {line.job_id for line in lines if line.kind == RunFailed.__name__ and line.job_id is not None}
        restarted = {line.job_id for line in lines if line.kind == Resized.__name__ and line.job_id is not None}
        lines += history.lines_of(sorted(failed.union(broken, restarted)), STEPS, since=since)
        return _happenings(sorted((line for line in lines if line.at <= until), key=lambda line: line.seq))

    def _story(self, job_id: str) -> Sequence[Note]:
        """What was said of a job that is over; nothing where that can no longer be read."""
        with suppress(DamagedError):
            record = self._journal.find(job_id)
            return () if record is None else record.notes
        return ()

    def _happenings_of(self, job_id: str) -> Iterator[Happening]:
        log, after = self._journal.store.log, 0
        while lines := log.page(after=after, job_id=job_id):
            yield from _happenings(line for line in lines if line.kind in KINDS)
            after = lines[-1].seq


def _happenings(lines: Iterable[Line]) -> list[Happening]:
    return [entry for entry in readable(lines) if isinstance(entry, Happening)]
