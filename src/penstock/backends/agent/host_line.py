"""A worker host's line to its agent: kept up as long as the agent can be found, and nothing important lost with it.

What must arrive is numbered and kept until the agent has acknowledged it. Output is kept up to :data:`MOST_KEPT` bytes;
what a worker prints beyond that while nobody listens is counted and dropped, for training never waits for a listener.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from penstock.backends.agent.part_messages import (
    HOST_MESSAGES,
    HOST_ORDERS,
    Acknowledged,
    HostMessage,
    HostOrder,
    HostReady,
    OutputBatch,
    OutputLine,
)
from penstock.core import (
    LONGEST_LINE,
    WORKER_MESSAGES,
    AgentAddress,
    Hello,
    ProtocolError,
    check_fingerprint,
    pinning_context,
)

_log = logging.getLogger(__name__)

MOST_KEPT = 4 * 2**20
"""Bytes of output that wait for an agent which does not listen."""
AGENT_SILENT_S = 10.0
"""A line on which nothing was heard for so long is given up and dialled again."""
_REDIAL_S = 0.2
_DIAL_S = 5.0

T = TypeVar("T")


class HostLine:
    """``ready`` says what the host has to tell first, given its own address; ``hear`` gets every order."""

    def __init__(
        self,
        agent: AgentAddress,
        hello: Hello,
        ready: Callable[[str], HostReady],
        hear: Callable[[HostOrder], None],
    ) -> None:
        self._agent = agent
        self._hello = hello
        self._ready = ready
        self._hear = hear
        self._loop = asyncio.get_running_loop()
        self._writer: asyncio.StreamWriter | None = None
        self._unheard: deque[tuple[int, bytes]] = deque()
        self._kept = 0
        self._seq = 0
        self._lost = 0
        self._settled = asyncio.Event()
        self.heard_at = self._loop.time()

    @property
    def connected(self) -> bool:
        return self._writer is not None

    async def keep(self) -> None:
        """Dial, talk, and dial again, until cancelled."""
        while True:
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, ValueError):
                await self._talk()
            self._writer = None
            await asyncio.sleep(_REDIAL_S)

    def tell(self, make: Callable[[int], HostMessage]) -> None:
        """Say something that must arrive; ``make`` is given its number."""
        self._seq += 1
        line = HOST_MESSAGES.encode(make(self._seq))
        self._unheard.append((self._seq, line))
        self._kept += len(line)
        self._settled.clear()
        self._write(line)

    def tell_output(self, lines: Sequence[OutputLine]) -> None:
        """Say what the worker printed, unless too much of it waits already."""
        if self._kept > MOST_KEPT:
            self._lost += len(lines)
            return
        lost, self._lost = self._lost, 0
        self.tell(lambda seq: OutputBatch(seq=seq, lines=tuple(lines), lost=lost))

    def mention(self, message: HostMessage) -> None:
        """Say something that only matters now."""
        self._write(HOST_MESSAGES.encode(message))

    async def settle(self, patience_s: float) -> None:
        """Wait until everything was heard."""
        if self._unheard:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._settled.wait(), patience_s)

    async def _talk(self) -> None:
        reader, writer = await asyncio.wait_for(_opened(self._agent), _DIAL_S)
        try:
            own = writer.get_extra_info("sockname")
            writer.write(WORKER_MESSAGES.encode(self._hello))
            writer.write(HOST_MESSAGES.encode(self._ready(own[0] if isinstance(own, tuple) else "127.0.0.1")))
            for _, line in self._unheard:
                writer.write(line)
            self._writer = writer
            while line := await asyncio.wait_for(reader.readline(), AGENT_SILENT_S):
                self._take(line)
        finally:
            writer.close()

    def _take(self, line: bytes) -> None:
        try:
            order = HOST_ORDERS.decode(line)
        except ProtocolError as error:
            _log.warning("ignored an order of the agent: %s", error)
            return
        self.heard_at = self._loop.time()
        if isinstance(order, Acknowledged):
            while self._unheard and self._unheard[0][0] <= order.seq:
                self._kept -= len(self._unheard.popleft()[1])
            if not self._unheard:
                self._settled.set()
        else:
            self._hear(order)

    def _write(self, line: bytes) -> None:
        if self._writer is not None:
            self._writer.write(line)


async def _opened(agent: AgentAddress) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if agent.path:
        return await asyncio.open_unix_connection(agent.path, limit=LONGEST_LINE)
    context = pinning_context() if agent.pin else None
    reader, writer = await asyncio.open_connection(agent.host, agent.port, limit=LONGEST_LINE, ssl=context)
    try:
        if agent.pin:
            check_fingerprint(writer.get_extra_info("ssl_object"), agent.pin)
    except OSError:
        writer.close()
        raise
    return reader, writer
