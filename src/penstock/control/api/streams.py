"""Server-sent events: what happens, as it happens, and from where one left off.

A stream lasts as long as whoever opened it is let in, and no longer: a token that is revoked or expires ends it.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from penstock.control.api.stream_slots import StreamSlots
from penstock.control.platform.service import Platform
from penstock.control.state.store import Principal
from penstock.core import InputError
from penstock.wire import UnauthorizedError, problem

T = TypeVar("T")
_POLL_S = 0.2
_LONGEST_POLL_S = 1.0
_SILENCE_S = 15.0
"""After this long without news a comment is sent, so that proxies keep the connection and dead ones are noticed."""

Message = tuple[str, str, Any]
"""The id to resume from, the kind, and the data."""


@dataclass(frozen=True, slots=True)
class Feed:
    """Where a stream's messages come from, and whether those were all; ``news`` says, at no cost, whether to ask."""

    more: Callable[[], Awaitable[tuple[list[Message], bool]]]
    news: Callable[[], bool] | None = None


class SharedReads:
    """What many streams want to read at the same time is read once, and kept for a moment.

    Whoever follows a log sooner or later waits at its end, and hundreds do: the disk is asked for all of them together.
    """

    def __init__(self) -> None:
        self._reads: dict[Hashable, asyncio.Future[Any]] = {}

    async def read(self, key: Hashable, function: Callable[[], T]) -> T:
        """What ``function`` says, called in a thread; what it said for the same key a moment ago is as good."""
        found = self._reads.get(key)
        if found is None:
            found = self._reads[key] = asyncio.ensure_future(run_in_threadpool(function))
            found.add_done_callback(lambda done: done.get_loop().call_later(_POLL_S, self._reads.pop, key, None))
        result: T = await asyncio.shield(found)
        return result


class StreamWakeups:
    """Lets streams sleep until their time is over or somebody rings, from whatever thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sleeping: set[asyncio.Event] = set()

    def ring(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for event in self._sleeping:
            event.set()

    async def sleep(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        event = asyncio.Event()
        self._sleeping.add(event)
        alarm = self._loop.call_later(seconds, event.set)
        try:
            await event.wait()
        finally:
            alarm.cancel()
            self._sleeping.discard(event)


class Streams:
    """All streams of one server."""

    def __init__(self, platform: Platform, slots: StreamSlots) -> None:
        self._platform = platform
        self._slots = slots
        self._wakeups = StreamWakeups()
        self.reads = SharedReads()
        platform.credentials.subscribe(self._wakeups.ring)

    def response(self, who: Principal, feed: Feed) -> StreamingResponse:
        """Every message of a feed, until it says that there will be no others or nobody may hear them."""
        self._slots.check(who.id)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._frames(who, feed), media_type="text/event-stream", headers=headers)

    async def _frames(self, who: Principal, feed: Feed) -> AsyncIterator[str]:
        with self._slots.taken(who.id):
            yield ": hello\n\n"
            try:
                async for text in self._messages(who, feed):
                    yield text
            except InputError as error:
                yield frame(("", "error", problem(error)))

    async def _messages(self, who: Principal, feed: Feed) -> AsyncIterator[str]:
        silent_s, pause_s = 0.0, _POLL_S
        while not self._platform.stopping.is_set():
            if not self._platform.credentials.is_valid(who):
                raise UnauthorizedError("This token is no longer valid", "a token that is", "Ask an admin for one")
            messages: list[Message] = []
            complete = False
            if feed.news is None or feed.news():
                messages, complete = await feed.more()
            for text in map(frame, messages):
                yield text
            if complete:
                yield frame(("", "end", {}))
                return
            if messages:
                silent_s, pause_s = 0.0, _POLL_S
                continue
            await self._wakeups.sleep(pause_s)
            silent_s += pause_s
            pause_s = _POLL_S if feed.news else min(pause_s * 1.5, _LONGEST_POLL_S)
            if silent_s >= _SILENCE_S:
                silent_s = 0.0
                yield ": still here\n\n"


def frame(message: Message) -> str:
    identity, kind, data = message
    return f"id: {identity}\nevent: {kind}\ndata: {json.dumps(data, default=str)}\n\n"


def resume_point(header: str | None, given: str | None) -> str | None:
    """A browser that reconnects says where it was by itself; that wins."""
    return header or given
