"""The route by which people run commands beside the workers of a job."""

from collections.abc import AsyncIterable, AsyncIterator

from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from penstock.control.api.dependencies import Caller, JobId, OpenStreams, Service
from penstock.control.api.streams import Feed, Message
from penstock.control.platform.job_processes import JobProcess
from penstock.wire import ExecRequest

Piece = str | bytes | memoryview
router = APIRouter(prefix="/v1", tags=["jobs"])


@router.post("/jobs/{job_id}/exec", response_class=StreamingResponse)
async def execute(
    job_id: JobId, wanted: ExecRequest, platform: Service, who: Caller, streams: OpenStreams
) -> StreamingResponse:
    """Run a command beside the workers of a job; its output comes as server-sent events, its exit code last.

    It ends when the connection does, and when the run does.
    """
    process = await run_in_threadpool(platform.execute, job_id, wanted.command, who)

    async def more() -> tuple[list[Message], bool]:
        text, code = await process.read()
        messages: list[Message] = [("", "output", {"text": text})] if text else []
        if code is not None:
            messages.append(("", "exit", {"code": code}))
        return messages, code is not None

    response = streams.response(who, Feed(more))
    response.body_iterator = _ending(response.body_iterator, process)
    return response


async def _ending(body: AsyncIterable[Piece], process: JobProcess) -> AsyncIterator[Piece]:
    """The same, and no process left behind however it ends."""
    try:
        async for piece in body:
            yield piece
    finally:
        process.end()
