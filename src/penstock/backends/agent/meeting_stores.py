"""Where workers meet that share no disk: one store of keys and values for each generation, kept by the agent.

Because no worker hosts it, a meeting survives the loss of any of them, rank 0 included. Stores of generations that have
been followed by others are dropped; whoever still asks for one learns that a newer world is coming.
"""

import asyncio
import base64
from contextlib import suppress

from penstock.core import STORE_REPLIES, STORE_REQUESTS, ProtocolError, StoreOp, StoreReply, StoreRequest

KEPT = 2
"""Generations whose stores are kept: the present one, and the one that some may still be leaving."""


class MeetingStore:
    """The keys and values of one generation; values stay as they came, in base64."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._changed = asyncio.Condition()

    async def answer(self, request: StoreRequest) -> StoreReply:
        async with self._changed:
            if request.op in (StoreOp.GET, StoreOp.WAIT):
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait_for(lambda: self._has(request)), request.timeout_s)
            reply = self._apply(request)
            self._changed.notify_all()
            return reply

    def _has(self, request: StoreRequest) -> bool:
        return all(key in self._values for key in request.keys)

    def _apply(self, request: StoreRequest) -> StoreReply:
        key = request.keys[0]
        match request.op:
            case StoreOp.SET:
                self._values[key] = request.value
            case StoreOp.ADD:
                amount = int(base64.b64decode(self._values.get(key, "")) or b"0") + request.amount
                self._values[key] = base64.b64encode(str(amount).encode()).decode()
                return StoreReply(amount=amount)
            case StoreOp.COMPARE_SET:
                if self._values.get(key, "") == request.expected:
                    self._values[key] = request.value
                return StoreReply(value=self._values.get(key, request.expected))
            case StoreOp.DELETE:
                return StoreReply(done=self._values.pop(key, None) is not None)
            case StoreOp.GET | StoreOp.WAIT | StoreOp.CHECK:
                return StoreReply(done=self._has(request), value=self._values.get(key, ""))
        return StoreReply()


class MeetingStores:
    """The stores of one run, by generation."""

    def __init__(self) -> None:
        self._stores: dict[int, MeetingStore] = {}

    def open(self, generation: int) -> None:
        """A fresh store for a world that is about to be announced."""
        self._stores[generation] = MeetingStore()
        for old in sorted(self._stores)[:-KEPT]:
            del self._stores[old]

    async def serve(self, generation: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one worker until it hangs up."""
        store = self._stores.get(generation)
        if store is None:
            raise ProtocolError(f"generation {generation} has no meeting; those of {sorted(self._stores)} have")
        while line := await reader.readline():
            writer.write(STORE_REPLIES.encode(await store.answer(STORE_REQUESTS.decode(line))))
            await writer.drain()
