"""Routes about what jobs saved: checkpoints, files, and cleaning up."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from penstock.control.api.dependencies import Caller, JobId, Service
from penstock.wire import CheckpointList, CleanReport, CleanRequest, FileList, StorableText

router = APIRouter(prefix="/v1", tags=["files"])

FilePath = Annotated[StorableText, Query(description="From the directory that the job saves to.", max_length=4096)]


@router.get("/jobs/{job_id}/checkpoints")
async def checkpoints(
    request: Request, job_id: JobId, platform: Service, who: Caller, verify: bool = False
) -> CheckpointList:
    """What the job can go on from, the newest first.

    With `verify` every checksum is computed: one such request for each tenant at a time (429), which ends with its
    connection.
    """
    gone = asyncio.create_task(_disconnected(request))
    try:
        return await run_in_threadpool(
            platform.files.checkpoints, job_id, who, verify=verify,
            unwanted=lambda: gone.done() or platform.stopping.is_set(),
        )  # fmt: skip
    finally:
        gone.cancel()


async def _disconnected(request: Request) -> None:
    """Return once the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


@router.get("/jobs/{job_id}/files")
def files(job_id: JobId, platform: Service, who: Caller, path: FilePath = "") -> FileList:
    """What lies in the directory that the job saves to, or below a path in it."""
    return platform.files.files(job_id, who, path)


@router.get("/jobs/{job_id}/files/content", response_class=StreamingResponse)
def file_content(job_id: JobId, platform: Service, who: Caller, path: FilePath = "") -> StreamingResponse:
    """A file as it is, in pieces; links are not followed."""
    opened = platform.files.read(job_id, who, path)
    return StreamingResponse(opened.chunks, media_type="application/octet-stream", headers=opened.headers)


@router.post("/clean")
def clean(wanted: CleanRequest, platform: Service, who: Caller) -> CleanReport:
    """Remove what jobs saved that are over; with `dry_run` only say what would go."""
    return platform.files.clean(wanted, who)
