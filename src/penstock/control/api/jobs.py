"""Routes about jobs: submit, quote, list, steer, explain, and follow their output."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from penstock.control.api.dependencies import Caller, JobId, OpenStreams, Service
from penstock.control.api.inputs import Before, Bookkeeping, EventLimit, EventNumber, Key, LastEvent, Name, Newest, Spec
from penstock.control.api.streams import Feed, Message, resume_point
from penstock.control.platform.service import Platform
from penstock.control.state.store import Principal
from penstock.core import MOST_METRICS
from penstock.wire import (
    ArrayRequest,
    ArraySubmission,
    ArrayView,
    EditRequest,
    EvaluationList,
    EventPage,
    JobDetail,
    JobHotspotsView,
    JobMetricsView,
    JobPage,
    LogPage,
    PauseRequest,
    QuoteView,
    ResumeRequest,
    StorableText,
    StoryView,
    Submission,
)

_STREAMED_BYTES = 1 << 18
"""Of output in one message of a stream: a long log comes in one answer and not in hundreds."""
Since = Annotated[StorableText | None, Query(description="Only output written since: how long ago (10m), or when.")]
router = APIRouter(prefix="/v1", tags=["jobs"])


@router.post("/jobs", status_code=201, response_model=Submission)
def submit(spec: Spec, platform: Service, who: Caller, idempotency_key: Key = None) -> Response:
    """Submit a job. Sent again with the same Idempotency-Key it is the same job, and the answer is 200."""
    submission = platform.submit(spec, who, key=idempotency_key)
    return Response(
        submission.model_dump_json(), 200 if submission.again else 201,
        {"Location": f"/v1/jobs/{submission.job.id}"}, "application/json",
    )  # fmt: skip


@router.post("/arrays", status_code=201)
def submit_array(
    wanted: ArrayRequest,
    platform: Service,
    who: Caller,
    response: Response,
    idempotency_key: Key = None,
) -> ArraySubmission:
    """Submit a job for each index of a range, all of them or none."""
    submission = platform.submit_array(wanted.job, wanted.array, who, key=idempotency_key)
    response.status_code = 200 if submission.again else 201
    return submission


@router.get("/arrays/{array}")
def show_array(array: Name, platform: Service, who: Caller) -> ArrayView:
    """A job array: how many of its jobs stand where."""
    return platform.array(array, who)


@router.post("/arrays/{array}/cancel")
def cancel_array(array: Name, platform: Service, who: Caller) -> ArrayView:
    """End every job of an array that is not over."""
    return platform.cancel_array(array, who)


@router.post("/arrays/{array}/pause")
def pause_array(array: Name, platform: Service, who: Caller, how: PauseRequest | None = None) -> ArrayView:
    """Take every job of an array out of scheduling until it is resumed."""
    return platform.pause_array(array, who, how)


@router.post("/arrays/{array}/resume")
def resume_array(array: Name, platform: Service, who: Caller, how: ResumeRequest | None = None) -> ArrayView:
    """Let the paused jobs of an array ask again, all of them or none."""
    return platform.resume_array(array, who, how)


@router.post("/quote")
def quote(spec: Spec, platform: Service, who: Caller) -> QuoteView:
    """What a submission would be told now. The real policy is asked; nothing is changed."""
    return platform.quote(spec, who)


@router.get("/jobs")
def list_jobs(
    platform: Service,
    who: Caller,
    cursor: StorableText | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    state: Annotated[list[StorableText] | None, Query(max_length=20)] = None,
    name: StorableText | None = None,
    tenant: StorableText | None = None,
    array: StorableText | None = None,
    grouped: bool = False,
    evaluations: bool = True,
) -> JobPage:
    """Jobs, newest first; those of one array, or with one line for each array instead of its jobs."""
    return platform.jobs(
        who, cursor=cursor, limit=limit, states=state or (), name=name, tenant=tenant, array=array, grouped=grouped,
        evaluations=evaluations,
    )  # fmt: skip


@router.get("/jobs/{job_id}")
def show(job_id: JobId, platform: Service, who: Caller) -> JobDetail:
    return platform.job(job_id, who)


@router.post("/jobs/{job_id}/cancel")
def cancel(job_id: JobId, platform: Service, who: Caller) -> JobDetail:
    """End a job for good."""
    return platform.cancel(job_id, who)


@router.post("/jobs/{job_id}/pause")
def pause(job_id: JobId, platform: Service, who: Caller, how: PauseRequest | None = None) -> JobDetail:
    """Take a job out of scheduling until it is resumed. It saves its state and gives up its promise.

    A job that cannot resume would lose its work: it is refused (409) with how much that is, unless ``anyway`` is said.
    """
    return platform.pause(job_id, who, how)


@router.post("/jobs/{job_id}/resume")
def resume(job_id: JobId, platform: Service, who: Caller, how: ResumeRequest | None = None) -> JobDetail:
    """Let a paused job ask again, with its old goal or another."""
    return platform.resume(job_id, who, how)


@router.post("/jobs/{job_id}/edit")
def edit(job_id: JobId, wanted: EditRequest, platform: Service, who: Caller) -> JobDetail:
    """Change the deadline, the bounds, the priority or the name of a job that is not over.

    Another deadline is answered as at submission: one that cannot be promised is refused (409) with the earliest that
    could be, and nothing is changed.
    """
    return platform.edit(job_id, who, wanted)


@router.get("/jobs/{job_id}/why")
def why(job_id: JobId, platform: Service, who: Caller) -> StoryView:
    """What happened to a job, and why it stands where it stands."""
    return platform.why(job_id, who)


@router.get("/jobs/{job_id}/metrics")
def job_metrics(
    job_id: JobId,
    platform: Service,
    who: Caller,
    metric: Annotated[list[StorableText] | None, Query(max_length=MOST_METRICS)] = None,
) -> JobMetricsView:
    """What the job's script logged: one curve for each metric, or for those that are named."""
    return platform.metrics(job_id, who, metric or ())


@router.get("/jobs/{job_id}/evaluations")
def job_evaluations(job_id: JobId, platform: Service, who: Caller) -> EvaluationList:
    """What evaluations of the job's checkpoints found, in the order of their steps."""
    return platform.evaluations(job_id, who)


@router.get("/jobs/{job_id}/usage")
def job_usage(job_id: JobId, platform: Service, who: Caller) -> JobMetricsView:
    """What the job used over time: processors, memory, devices and power, as far as its backend can tell."""
    return platform.usage(job_id, who)


@router.get("/jobs/{job_id}/hotspots")
def job_hotspots(job_id: JobId, platform: Service, who: Caller) -> JobHotspotsView:
    """Where the time of the job's steps goes: a sampled profile, and the times of each worker."""
    return platform.hotspots(job_id, who)


@router.get("/jobs/{job_id}/events")
def job_events(
    job_id: JobId,
    platform: Service,
    who: Caller,
    after: EventNumber = 0,
    before: Before = None,
    newest: Newest = False,
    bookkeeping: Bookkeeping = True,
    limit: EventLimit = 100,
) -> EventPage:
    """The job's part of the log."""
    return platform.events(who, job_id, after=after, before=before, newest=newest, bookkeeping=bookkeeping, limit=limit)


@router.get("/jobs/{job_id}/logs")
def job_logs(
    job_id: JobId,
    platform: Service,
    who: Caller,
    cursor: StorableText | None = None,
    worker: StorableText | None = None,
    since: Since = None,
    limit: Annotated[int, Query(ge=1, le=1 << 20)] = 1 << 16,
) -> LogPage:
    """Output of the job, run after run."""
    return platform.logs(job_id, who, cursor=cursor, worker=worker, since=since, limit=limit)


@router.get("/jobs/{job_id}/logs/stream", response_class=StreamingResponse)
def follow_logs(
    job_id: JobId,
    platform: Service,
    who: Caller,
    streams: OpenStreams,
    cursor: StorableText | None = None,
    worker: StorableText | None = None,
    since: Since = None,
    follow: bool = True,
    last_event_id: LastEvent = None,
) -> StreamingResponse:
    """Output as it comes, as server-sent events; each id is a cursor to resume from.

    Ends when the job is over, or without `follow` where its output ends now.
    """
    position = resume_point(last_event_id, cursor)
    read = partial(_log_page, platform, who, job_id, worker)
    first: LogPage | None = read(position, since)

    patient = False

    async def more() -> tuple[list[Message], bool]:
        nonlocal position, first, patient
        if first is not None:
            page, first = first, None
        else:
            key, has_news = (job_id, worker, position, follow), partial(_is_worth_sending, follow)
            page = await streams.reads.read(key, partial(read, position), has_news, patient=patient)
        position, patient = page.next, not page.text
        complete = page.complete or not (follow or page.text)
        return ([(position, "log", {"text": page.text})] if page.text else []), complete

    return streams.response(who, Feed(more))


def _is_worth_sending(follow: bool, page: LogPage) -> bool:
    """Who does not follow wants to know that there is nothing more."""
    return not follow or bool(page.text or page.complete)


def _log_page(
    platform: Platform, who: Principal, job_id: str, worker: str | None, cursor: str | None, since: str | None = None
) -> LogPage:
    return platform.logs(job_id, who, cursor=cursor, worker=worker, since=since, limit=_STREAMED_BYTES)
