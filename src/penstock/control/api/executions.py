"""Routes by which people run commands beside the workers of a job, with a terminal or without."""

from collections.abc import AsyncIterable, AsyncIterator, Callable

from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from penstock.control.api.dependencies import Caller, JobId, OpenStreams, Service
from penstock.control.api.inputs import Name
from penstock.control.api.streams import Feed, Message
from penstock.wire import ExecRequest, KeysRequest

Piece = str | bytes | memoryview
router = APIRouter(prefix="/v1", tags=["jobs"])


@router.post("/jobs/{job_id}/exec", response_class=StreamingResponse)
async def execute(
    job_id: JobId, wanted: ExecRequest, platform: Service, who: Caller, streams: OpenStreams
) -> StreamingResponse:
    """Run a command beside the workers of a job; its output comes as server-sent events, its exit code last.

    With a terminal the first event names the session that takes keys. It ends when the connection does, and when the
    run does.
    """
    process, session = await run_in_threadpool(platform.executions.start, job_id, wanted, who)
    untold = [session] if session else []

    async def more() -> tuple[list[Message], bool]:
        if untold:
            await process.begin()
            return [("", "session", {"id": untold.pop()})], False
        text, code = await process.read()
        messages: list[Message] = [("", "output", {"text": text})] if text or session else []
        if code is not None:
            messages.append(("", "exit", {"code": code}))
        return messages, code is not None

    response = streams.response(who, Feed(more))
    response.body_iterator = _ending(response.body_iterator, lambda: platform.executions.over(process, session))
    return response


@router.post("/jobs/{job_id}/exec/{session}/keys", status_code=204)
def type_keys(job_id: JobId, session: Name, keys: KeysRequest, platform: Service, who: Caller) -> None:  # noqa: ARG001
    """Keys for the terminal of a session."""
    platform.executions.type(session, keys, who)


async def _ending(body: AsyncIterable[Piece], over: Callable[[], None]) -> AsyncIterator[Piece]:
    """The same, and no process left behind however it ends."""
    try:
        async for piece in body:
            yield piece
    finally:
        over()
