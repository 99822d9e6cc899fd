"""Server-sent events: what happens, as it happens, and from where one left off."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from threading import Event
from typing import Annotated, Any

from fastapi import Header
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

_POLL_S = 0.2
_SILENCE_S = 15.0
"""After this long without news a comment is sent, so that proxies keep the connection and dead ones are noticed."""

LastEvent = Annotated[str | None, Header(alias="Last-Event-ID")]
Message = tuple[str, str, Any]
"""The id to resume from, the kind, and the data."""


def frame(message: Message) -> str:
    identity, kind, data = message
    return f"id: {identity}\nevent: {kind}\ndata: {json.dumps(data, default=str)}\n\n"


def stream(stopping: Event, more: Callable[[], tuple[list[Message], bool]]) -> StreamingResponse:
    """Every message ``more`` has, until it says that there will be no others or ``stopping`` is set."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_frames(stopping, more), media_type="text/event-stream", headers=headers)


async def _frames(stopping: Event, more: Callable[[], tuple[list[Message], bool]]) -> AsyncIterator[str]:
    silent_s = 0.0
    yield ": hello\n\n"
    while not stopping.is_set():
        messages, complete = await run_in_threadpool(more)
        for text in map(frame, messages):
            yield text
        if complete:
            yield frame(("", "end", {}))
            return
        silent_s = 0.0 if messages else silent_s + _POLL_S
        if silent_s >= _SILENCE_S:
            silent_s = 0.0
            yield ": still here\n\n"
        if not messages:
            await asyncio.sleep(_POLL_S)


def resume_point(header: str | None, given: str | None) -> str | None:
    """A browser that reconnects says where it was by itself; that wins."""
    return header or given
