"""What people change: requests are checked on behalf of a principal and become entries of the journal.

The writing half of :class:`~penstock.control.platform.service.Platform`, in the words of the domain and without views,
so that it is tested without a web framework. Every refusal says what was given, what is allowed and what to do next.
"""

import math
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.control.future.forecast import forecast
from penstock.control.future.forecasts import Forecasts
from penstock.control.future.quoting import quote
from penstock.control.loop.job_reader import JobDraft, JobReading
from penstock.control.notify.settings import NotifySettings
from penstock.control.platform.array_commands import ArrayCommands
from penstock.control.platform.awaited_jobs import awaited_jobs, blocked_quote
from penstock.control.platform.editing import edit_entry
from penstock.control.platform.job_arrays import JobArray
from penstock.control.platform.losses import drained_jobs, pause_entry
from penstock.control.platform.quotas import Quotas
from penstock.control.platform.resuming import resumed
from penstock.control.platform.tenancy import ANYBODY, Tenancy
from penstock.control.state.entries import Absence, Cancelled, NodeCame, NodeLeft, PauseAsked, Submitted
from penstock.control.state.group_commit import Request
from penstock.control.state.journal import Journal
from penstock.control.state.records import JobRecord
from penstock.control.state.store import Key, Principal
from penstock.core import Node, Quote, Source, UnknownNameError, Verdict
from penstock.policies import weakest_source
from penstock.wire import (
    ConflictError,
    DrainedJob,
    DrainRequest,
    ForbiddenError,
    JobPhase,
    MissingError,
    PauseRequest,
    ResumeRequest,
)

_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """What became of a submission; ``again`` if the same request had already been answered."""

    job_id: str
    again: bool = False


class Commands:
    """Takes requests on behalf of a principal and records what follows from them.

    ``nudge`` asks the loop for a pass at once. ``tenancy`` decides whose jobs are taken, ``known_secrets``
    names what a tenant has stored for them.
    """

    def __init__(
        self,
        journal: Journal,
        reader: JobReading,
        forecasts: Forecasts,
        nudge: Callable[[], None] = lambda: None,
        *,
        tenancy: Tenancy = ANYBODY,
        known_secrets: Callable[[str], Collection[str]] = lambda _: (),
        quotas: Quotas | None = None,
        notify: NotifySettings | None = None,
    ) -> None:
        self.tenancy = tenancy
        self.quotas = quotas or Quotas(journal.store.quotas)
        self._known_secrets = known_secrets
        self._notify = notify or NotifySettings()
        self._journal = journal
        self._reader = reader
        self._forecasts = forecasts
        self._nudge = nudge
        self.arrays = ArrayCommands(journal, self._done)

    def submit(self, spec: Mapping[str, Any], who: Principal, key: Key | None = None) -> Ticket:
        """A new job, recorded at once; what it needs is prepared afterwards, outside of this request.

        The same key with the same content is the same job, however often it is sent.
        """
        if key is not None and (ticket := self._answered(key)):
            return ticket
        draft = self._read(spec, who)
        self.tenancy.admit(draft.job.tenant)
        again: list[Ticket] = []

        def make() -> Request | None:
            if key is not None and (ticket := self._answered(key)):
                again.append(ticket)
                return None
            self._must_have_room(draft.job.tenant)
            entry = self._entry(draft, who)
            return Request(entry, key and replace(key, job_id=draft.job.id))

        self._journal.record_with_others(make)
        if again:
            return again[0]
        self._done()
        return Ticket(job_id=draft.job.id)

    def submit_array(
        self, spec: Mapping[str, Any], indices: range, who: Principal, key: Key | None = None
    ) -> tuple[JobArray, bool]:
        """A job for each index, all of them or none, and whether the same request had already been answered."""
        if key is not None and (ticket := self._answered(key)):
            return JobArray(id=ticket.job_id, indices=indices), True
        draft = self._read(spec, who)
        self.tenancy.admit(draft.job.tenant)
        array = JobArray(id=draft.job.id, indices=indices)
        members = array.members(draft)
        with self._journal.lock:
            if key is not None and (ticket := self._answered(key)):
                return JobArray(id=ticket.job_id, indices=indices), True
            self._must_have_room(draft.job.tenant, len(members))
            entries = [self._entry(member, who) for member in members]
            self._journal.record_all(entries, key and replace(key, job_id=array.id))
        self._done()
        return array, False

    def _entry(self, draft: JobDraft, who: Principal) -> Submitted:
        job = replace(draft.job, submitted_at=self._journal.now())
        return Submitted(
            at=job.submitted_at, job=job, name=draft.name, recipe=draft.recipe, spec=draft.spec, by=who.name,
            preparing=draft.needs_preparation, after=draft.after, after_any=draft.after_any,
        )  # fmt: skip

    def quote(self, spec: Mapping[str, Any], who: Principal) -> Quote:
        """What :meth:`submit` would be told now, as far as it is known; nothing is changed, installed, run or held."""
        draft = self._read(spec, who)
        with self._journal.reading() as state:
            now, stage, wake_at = self._journal.now(), state.scheduler.twin(), state.wake_at
        if draft.after:
            return replace(blocked_quote(draft, stage, self._forecasts, now), speed=weakest_source(draft.job))
        job = replace(draft.job, submitted_at=now)
        later = Quote(job_id=job.id, verdict=Verdict.DEFERRED, reason="answered in the next round", answer_by=wake_at)
        answer = quote(stage, job, now) or later
        if stage.is_active(job.id) and weakest_source(job) is not Source.GUESSED:
            answer = replace(answer, expected_at=forecast(stage, [job.id]).get(job.id, math.inf))
        is_said = "never measured" in answer.reason and draft.note.endswith("measured when it first runs")
        reason = f"{answer.reason}; {draft.note}" if draft.note and not is_said else answer.reason
        return replace(answer, speed=weakest_source(job), reason=reason, held=None, offer_until=math.inf)

    def cancel(self, job_id: str, who: Principal) -> None:
        """End a job for good. Cancelling one that is cancelled changes nothing."""
        with self._journal.lock:
            record = self._own(job_id, who)
            if record.mark is JobPhase.CANCELLED:
                return
            self._not_over(record, "cancelled")
            self._journal.record(Cancelled(at=self._journal.now(), job_id=job_id, by=who.name))
        self._done()

    def pause(self, job_id: str, who: Principal, how: PauseRequest | None = None) -> None:
        """Take a job out of scheduling; it keeps its state and its place in the list, not its promise.

        A job that cannot resume would lose its work, so the caller has to say that this is meant.
        """
        with self._journal.lock:
            record = self._own(job_id, who)
            if record.mark is JobPhase.PAUSED:
                return
            self._not_over(record, "paused")
            if not record.is_scheduled:
                stands = "blocked" if record.mark is JobPhase.BLOCKED else "being prepared"
                raise ConflictError(
                    f"job {job_id!r} is {stands} and cannot be paused yet", "a job that has been prepared",
                    "Wait until it is pending, or cancel it",
                )  # fmt: skip
            self._not_finishing(record, "paused")
            self._journal.record(pause_entry(record, how or PauseRequest(), self._journal.now(), who.name))
        self._done()

    def resume(self, job_id: str, who: Principal, how: ResumeRequest | None = None) -> None:
        """Let a paused job ask again. If it would be refused it stays paused, and the caller learns what could work."""
        with self._journal.lock:
            record = self._own(job_id, who)
            if record.mark is not JobPhase.PAUSED:
                self._not_over(record, "resumed")
                if record.pause_asked_at is not None:
                    now = self._journal.now()
                    self._journal.record(PauseAsked(at=now, job_id=job_id, by=who.name, withdrawn=True))
                if how is not None and how.from_scratch:
                    raise ConflictError(
                        f"job {job_id!r} is not paused", "from_scratch for a paused job", "Pause it first"
                    )
                return
            stage = self._journal.state.scheduler.twin()
            self._journal.record(resumed(record, how, stage, self._journal.now(), who.name))
        self._done()

    def edit(self, job_id: str, who: Principal, wanted: Mapping[str, Any]) -> None:
        """Change the deadline, the bounds, the priority or the name of a job that is not over, all of it or nothing."""
        with self._journal.lock:
            record = self._own(job_id, who)
            self._not_over(record, "edited")
            self._not_finishing(record, "edited")
            now = self._journal.now()
            self._journal.record(edit_entry(wanted, record, self._journal.state, self.quotas, now, who.name))
        self._done()

    def drain(self, node: str, how: DrainRequest | None = None, *, by: str = "") -> None:
        """No more jobs on a node; those that can resume save their state and go elsewhere, the others end there first.

        With ``now`` they are stopped as well. A new reason is kept.
        """
        how = how or DrainRequest()
        self._node(node)
        with self._journal.reading() as state:
            news = how.reason and how.reason != state.drained_because.get(node)
            stops = how.now and state.is_emptying(node)
            if news or stops or state.absent.get(node) is not Absence.DRAINED:
                self._journal.record(
                    NodeLeft(
                        at=self._journal.now(), node=node, why=Absence.DRAINED, reason=how.reason, by=by,
                        waits=not how.now,
                    )
                )  # fmt: skip
        self._done()

    def drained_jobs(self, node: str) -> list[DrainedJob]:
        """The jobs that draining a node would stop."""
        self._node(node)
        with self._journal.reading() as state:
            return drained_jobs(state, node, self._journal.now())

    def undrain(self, node: str) -> None:
        known_node = self._node(node)
        with self._journal.reading() as state:
            if state.absent.get(node) is Absence.DRAINED:
                self._journal.record(NodeCame(at=self._journal.now(), node=known_node, why=Absence.DRAINED))
        self._done()

    def find(self, job_id: str, who: Principal) -> JobRecord:
        """A job this principal may see; somebody else's is as unknown as one that never was."""
        return self._own(job_id, who)

    def _own(self, job_id: str, who: Principal) -> JobRecord:
        record = self._journal.find(job_id)
        if record is None or not who.may_see(record.job.tenant):
            return self._unknown(job_id)
        return record

    def _unknown(self, job_id: str) -> JobRecord:
        raise MissingError(
            f"There is no job {job_id!r}", "the id of a job of yours", "`penstock ps -a` lists them, and GET /v1/jobs"
        )

    def _not_over(self, record: JobRecord, what: str) -> None:
        if record.over:
            raise ConflictError(
                f"job {record.id!r} is {record.mark} and cannot be {what}", "a job that is not over", "Submit it again"
            )

    def _not_finishing(self, record: JobRecord, what: str) -> None:
        if record.released:
            raise ConflictError(
                f"job {record.id!r} has given its devices back, is finishing and cannot be {what}",
                "a job that has devices or wants some", "Let it finish, or cancel it",
            )  # fmt: skip

    def _node(self, name: str) -> Node:
        with self._journal.reading() as state:
            nodes = {node.name: node for _, node in state.scheduler.cluster.present()}
        if name not in nodes:
            raise UnknownNameError.of("node", name, nodes)
        return nodes[name]

    def _answered(self, key: Key) -> Ticket | None:
        known = self._journal.store.log.find_key(key.tenant, key.key)
        if known is None:
            return None
        if known.fingerprint != key.fingerprint:
            raise ConflictError(
                f"the idempotency key {key.key!r} was used for another job ({known.job_id})", "one key per job",
                "Use a new key",
            )  # fmt: skip
        return Ticket(job_id=known.job_id, again=True)

    def _read(self, spec: Mapping[str, Any], who: Principal) -> JobDraft:
        named = "".join(secrets.choice(_ALPHABET) for _ in range(8))
        tenant = str(spec.get("tenant") or who.tenant)
        if not who.may_see(tenant):
            raise ForbiddenError(
                f"You cannot submit for tenant {tenant!r}", f"your own tenant, {who.tenant}", "Leave tenant out"
            )
        if self._journal.state.scheduler.is_group(tenant):
            raise ForbiddenError(
                f"{tenant!r} is a group of tenants", "a tenant that is no group", "Submit for one of its members"
            )
        draft = self._reader.read(spec, job_id=f"j-{named}", tenant=tenant, now=self._journal.now())
        self._check_secrets(draft, tenant)
        self._notify.job_rule(draft.spec)
        after = awaited_jobs(self._journal, self.arrays, draft.after, who, after_any=draft.after_any)
        return replace(draft, job=self.quotas.fitted(draft.job), after=after)

    def _check_secrets(self, draft: JobDraft, tenant: str) -> None:
        known = self._known_secrets(tenant) if draft.recipe.secrets else ()
        for use in draft.recipe.secrets:
            if use.secret not in known:
                raise UnknownNameError.of("secret", use.secret, known, f"Store it: penstock secrets set {use.secret}")

    def _must_have_room(self, tenant: str, jobs: int = 1) -> None:
        """Called with the lock held, so that two submissions at once do not both take the last place."""
        self.quotas.check_active(tenant, self._journal.state.asked_for(tenant) + jobs - 1)

    def _done(self) -> None:
        self._nudge()
        self._forecasts.refresh(now=True)
