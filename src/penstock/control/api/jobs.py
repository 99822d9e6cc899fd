"""Everything one can do with a job."""

import hashlib
import json
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Query, Response
from fastapi.responses import StreamingResponse

from penstock.control.api import logs
from penstock.control.api.services import Platform, Services, Who
from penstock.control.api.streams import Message, resume_point, stream
from penstock.control.platform.presenter import event_view, job_detail, job_view, quote_view
from penstock.control.state.store import Key, Principal
from penstock.core import InputError, UnknownNameError, plain
from penstock.wire import (
    EventPage,
    JobDetail,
    JobPage,
    JobPhase,
    LogPage,
    NoteView,
    QuoteView,
    ResumeRequest,
    StoryView,
    Submission,
    stamp,
)

router = APIRouter(prefix="/v1", tags=["jobs"])
Spec = Annotated[dict[str, Any], Body(description="A job file as JSON.")]
LastEvent = Annotated[str | None, Header(alias="Last-Event-ID")]


@router.post("/jobs", status_code=201)
def submit(
    spec: Spec,
    platform: Platform,
    who: Who,
    response: Response,
    idempotency_key: Annotated[str | None, Header(max_length=200)] = None,
) -> Submission:
    """Submit a job. Sent again with the same Idempotency-Key it is the same job, and the answer is 200."""
    key = idempotency_key and Key(tenant=who.tenant, key=idempotency_key, fingerprint=_fingerprint(spec))
    ticket = platform.desk.submit(spec, who, key or None)
    response.status_code = 200 if ticket.again else 201
    response.headers["Location"] = f"/v1/jobs/{ticket.job_id}"
    return Submission(job=_detail(platform, ticket.job_id, who), again=ticket.again)


@router.post("/quote")
def ask(spec: Spec, platform: Platform, who: Who) -> QuoteView:
    """What a submission would be told now. The real policy is asked; nothing is changed."""
    return quote_view(plain(platform.desk.quote(spec, who)))


@router.get("/jobs")
def list_jobs(
    platform: Platform,
    who: Who,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    state: Annotated[list[str] | None, Query()] = None,
    name: str | None = None,
    tenant: str | None = None,
) -> JobPage:
    """Jobs, newest first."""
    wanted = [_state(text) for text in state or []]
    platform.journal.publish()
    if tenant is not None and not who.may_see(tenant):
        return JobPage(jobs=[])
    rows = platform.journal.store.jobs.page(
        after=_number(cursor), limit=limit + 1, tenant=who.sees or tenant, states=wanted, name=name
    )
    more = str(rows[limit - 1].number) if len(rows) > limit else None
    expected = platform.desk.forecasts.expected_at
    return JobPage(jobs=[job_view(row, expected(row.id)) for row in rows[:limit]], next=more)


@router.get("/jobs/{job_id}")
def show(job_id: str, platform: Platform, who: Who) -> JobDetail:
    return _detail(platform, job_id, who)


@router.post("/jobs/{job_id}/cancel")
def cancel(job_id: str, platform: Platform, who: Who) -> JobDetail:
    """End a job for good."""
    platform.desk.cancel(job_id, who)
    return _detail(platform, job_id, who)


@router.post("/jobs/{job_id}/pause")
def pause(job_id: str, platform: Platform, who: Who) -> JobDetail:
    """Take a job out of scheduling until it is resumed. It saves its state and gives up its promise."""
    platform.desk.pause(job_id, who)
    return _detail(platform, job_id, who)


@router.post("/jobs/{job_id}/resume")
def resume(job_id: str, platform: Platform, who: Who, how: ResumeRequest | None = None) -> JobDetail:
    """Let a paused job ask again, with its old goal or another."""
    how = how or ResumeRequest()
    platform.desk.resume(job_id, who, deadline=how.deadline, best_effort=how.best_effort)
    return _detail(platform, job_id, who)


@router.get("/jobs/{job_id}/why")
def why(job_id: str, platform: Platform, who: Who) -> StoryView:
    """What happened to a job, and why it stands where it stands."""
    record = platform.desk.find(job_id, who)
    with platform.journal.reading() as state:
        story = state.story(record)
    notes = [NoteView.model_validate({"at": stamp(note.at), "text": note.text}) for note in story.entries]
    return StoryView(job_id=job_id, entries=notes, now=story.now)


@router.get("/jobs/{job_id}/events")
def job_events(
    job_id: str,
    platform: Platform,
    who: Who,
    after: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> EventPage:
    """The job's part of the log."""
    platform.desk.find(job_id, who)
    lines = platform.journal.store.log.page(after=after, limit=limit, job_id=job_id)
    return EventPage(events=[event_view(line) for line in lines], next=lines[-1].seq if lines else after)


@router.get("/jobs/{job_id}/logs")
def job_logs(
    job_id: str,
    platform: Platform,
    who: Who,
    cursor: str | None = None,
    worker: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1 << 20)] = 1 << 16,
) -> LogPage:
    """Output of the job, run after run."""
    record = platform.desk.find(job_id, who)
    chunk = logs.read(platform, record, worker, logs.Place.parse(cursor), limit)
    return LogPage(text=chunk.data.decode("utf-8", "replace"), next=str(chunk.next), complete=chunk.complete)


@router.get("/jobs/{job_id}/logs/stream", response_class=StreamingResponse)
def follow_logs(
    job_id: str,
    platform: Platform,
    who: Who,
    cursor: str | None = None,
    worker: str | None = None,
    last_event_id: LastEvent = None,
) -> StreamingResponse:
    """Output as it comes, as server-sent events; each id is a cursor to resume from. Ends when the job is over."""
    record = platform.desk.find(job_id, who)
    place = logs.Place.parse(resume_point(last_event_id, cursor))

    def more() -> tuple[list[Message], bool]:
        nonlocal place
        chunk = logs.read(platform, record, worker, place, 1 << 16)
        place = chunk.next
        text = chunk.data.decode("utf-8", "replace")
        return ([(str(place), "log", {"text": text})] if text else []), chunk.complete

    return stream(platform, more)


def _detail(platform: Services, job_id: str, who: Principal) -> JobDetail:
    record = platform.desk.find(job_id, who)
    with platform.journal.reading():
        row = platform.journal.row(record)
    return job_detail(platform, row, record)


def _fingerprint(spec: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(spec, sort_keys=True, default=str).encode()).hexdigest()


def _state(text: str) -> str:
    if text not in {phase.value for phase in JobPhase}:
        raise UnknownNameError.of("state", text, [phase.value for phase in JobPhase])
    return text


def _number(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 18:
        raise InputError(f"the cursor {cursor!r}", "what `next` of the page before says", "Leave it out to start over")
    return int(cursor)
