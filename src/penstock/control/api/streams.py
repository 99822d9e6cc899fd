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
    """Where a stream's messages come from, and whether those were all.

    Without ``news``, asking for ``more`` waits a while for them; else ``news`` says, at no cost, whether to ask.
    """

    more: Callable[[], Awaitable[tuple[list[Message], bool]]]
    news: Callable[[], bool] | None = None


class StreamWakeups:
    """Lets streams sleep until their time is over or somebody rings, from whatever thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sleeping: set[asyncio.Event] = set()
        self._rings = 0

    def ring(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._rings += 1
        for event in self._sleeping:
            event.set()

    async def sleep(self, seconds: float) -> bool:
        """Whether somebody rang."""
        self._loop = asyncio.get_running_loop()
        event, rings = asyncio.Event(), self._rings
        self._sleeping.add(event)
        alarm = self._loop.call_later(seconds, event.set)
        try:
            await event.wait()
        finally:
            alarm.cancel()
            self._sleeping.discard(event)
        return self._rings != rings


class SharedReads:
    """What many streams wait for is looked at for all of them together, and kept for a moment.

    Whoever follows a log sooner or later waits at its end, and hundreds do: one of them asks the disk again and again,
    the others sleep until there is something to read, or a second is over.
    """

    def __init__(self, wakeups: StreamWakeups | None = None) -> None:
        self._wakeups = wakeups or StreamWakeups()
        self._reads: dict[Hashable, asyncio.Future[Any]] = {}

    async def read(
        self,
        key: Hashable,
        function: Callable[[], T],
        has_news: Callable[[T], bool] = lambda _: True,
        *,
        patient: bool = False,
    ) -> T:
        """What ``function`` says, called in a thread, as soon as that ``has_news``; what it says without any after a
        second, or once somebody rings. Who is ``patient`` has waited for a while and is told a little later."""
        found = self._reads.get(key)
        if found is None:
            found = asyncio.ensure_future(self._look(function, has_news, _LONGEST_POLL_S if patient else _POLL_S))
            self._reads[key] = found
            found.add_done_callback(lambda done: self._forget(key, done, has_news))
        result: T = await asyncio.shield(found)
        return result

    async def _look(self, function: Callable[[], T], has_news: Callable[[T], bool], pause_s: float) -> T:
        waited_s = 0.0
        while True:
            result = await run_in_threadpool(function)
            if has_news(result) or waited_s >= _LONGEST_POLL_S or await self._wakeups.sleep(pause_s):
                return result
            waited_s, pause_s = waited_s + pause_s, min(pause_s * 1.5, _LONGEST_POLL_S)

    def _forget(self, key: Hashable, done: "asyncio.Future[T]", has_news: Callable[[T], bool]) -> None:
        """News are kept for those who come a moment later; that there are none is not worth keeping."""
        if done.cancelled() or done.exception() is not None or not has_news(done.result()):
            self._reads.pop(key, None)
        else:
            done.get_loop().call_later(_POLL_S, self._reads.pop, key, None)


class Streams:
    """All streams of one server."""

    def __init__(self, platform: Platform, slots: StreamSlots) -> None:
        self._platform = platform
        self._slots = slots
        self._wakeups = StreamWakeups()
        self.reads = SharedReads(self._wakeups)
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
        clock = asyncio.get_running_loop().time
        spoke_at = clock()
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
                spoke_at = clock()
                continue
            if feed.news is not None:
                await self._wakeups.sleep(_POLL_S)
            if clock() - spoke_at >= _SILENCE_S:
                spoke_at = clock()
                yield ": still here\n\n"


def frame(message: Message) -> str:
    identity, kind, data = message
    return f"id: {identity}\nevent: {kind}\ndata: {json.dumps(data, default=str)}\n\n"


def resume_point(header: str | None, given: str | None) -> str | None:
    """A browser that reconnects says where it was by itself; that wins."""
    return header or given
