"""The agent's end of its workers' lines: who may speak, what they say, and the way back to them.

A connection begins with a :class:`~penstock.core.Hello` that knows the run's secret, within a few seconds. Whoever does
not gets one :class:`~penstock.core.Refusal` and is hung up on; what they sent is written nowhere. Over TCP
connections without a hello are bounded, of one address and in all: a further one takes the place of the oldest. After a
hello a message that cannot be read is passed over and given to ``doubt``: one mistake of a script never ends a run.
"""

import asyncio
import hmac
import logging
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from penstock.backends.agent.line_certificate import LineCertificate
from penstock.backends.agent.meeting_stores import MeetingStores
from penstock.core import (
    AGENT_MESSAGES,
    LONGEST_LINE,
    WORKER_MESSAGES,
    AgentAddress,
    AgentMessage,
    Hello,
    ProtocolError,
    Refusal,
    WorkerMessage,
    clean_text,
)

_log = logging.getLogger(__name__)

_SHOWN = 400
HELLO_S = 10.0
"""How long a connection may take to say who it is."""
LONGEST_HELLO = 1 << 14
MOST_SILENT, MOST_SILENT_OF_ONE = 256, 128
"""Connections without a hello, in all and of one address."""
LAST_WORDS_S = 1.0
"""How long to wait for what a worker sent before it ended."""


ServeHost = Callable[[Hello, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Talks with the host of a part until its line breaks."""


class WorkerLines:
    """All lines to the workers of one run.

    ``hear`` gets every message with the name of its worker, ``doubt`` what is wrong with one that is none. ``host``
    serves those who start workers elsewhere.
    """

    def __init__(
        self,
        secret: str,
        stores: MeetingStores,
        *,
        hear: Callable[[str, WorkerMessage], None],
        doubt: Callable[[str, str], None],
        host: ServeHost | None = None,
    ) -> None:
        self._secret = secret
        self._stores = stores
        self._hear = hear
        self._doubt = doubt
        self._host = host
        self._lines: dict[str, asyncio.StreamWriter] = {}
        self._ends: dict[str, asyncio.Event] = {}
        self._servers: list[asyncio.Server] = []
        self._silent: dict[asyncio.StreamWriter, str] = {}

    async def listen(self, address: AgentAddress, certificate: LineCertificate | None = None) -> AgentAddress:
        """Listen there; returns where workers reach it, which is another port if none was given.

        With a certificate a port speaks TLS, and its address names the fingerprint.
        """
        if address.path:
            server = await asyncio.start_unix_server(self._serve, path=address.path, limit=LONGEST_LINE)
        else:
            serve = partial(self._serve, context=certificate.server_context() if certificate else None)
            server = await asyncio.start_server(serve, address.host, address.port, limit=LONGEST_LINE)
            port = server.sockets[0].getsockname()[1]
            address = AgentAddress(host=address.host, port=port, pin=certificate.pin if certificate else "")
        self._servers.append(server)
        return address

    def send(self, worker_id: str, message: AgentMessage) -> None:
        """Tell a worker something, if it has a line."""
        if line := self._lines.get(worker_id):
            line.write(AGENT_MESSAGES.encode(message))

    async def last_words(self, worker_id: str) -> None:
        """Hear a worker out whose process has ended: what it sent may still be on the line."""
        if ended := self._ends.pop(worker_id, None):
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), LAST_WORDS_S)
        self._lines.pop(worker_id, None)

    def is_cut_off(self, worker_id: str) -> bool:
        """Whether a worker that has had a line has none any more."""
        return worker_id in self._ends and worker_id not in self._lines

    def close(self) -> None:
        for server in self._servers:
            server.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext | None = None
    ) -> None:
        ended = asyncio.Event()
        worker_id = ""
        try:
            self._make_room(writer)
            if context is not None:  # counted before its handshake, which an unknown peer may draw out
                await _start_tls(writer, context)
            hello = await self._welcome(reader)
            self._silent.pop(writer, None)
            if hello.store is not None:
                await self._stores.serve(hello.store, reader, writer)
                return
            if hello.part:
                await self._serve_host(hello, reader, writer)
                return
            worker_id = hello.worker
            self._lines[worker_id], self._ends[worker_id] = writer, ended
            self._hear(worker_id, hello)
            while line := await reader.readline():
                self._take(worker_id, line)
        except ProtocolError as error:
            _log.warning("refused a connection: %s", error)
            with suppress(OSError):
                writer.write(AGENT_MESSAGES.encode(Refusal(reason=str(error))))
                await writer.drain()
        except (OSError, ValueError):
            pass  # a peer that is gone, or a line too long: either way this connection is over
        finally:
            self._silent.pop(writer, None)
            ended.set()
            if self._lines.get(worker_id) is writer:
                del self._lines[worker_id]
            writer.close()

    async def _serve_host(self, hello: Hello, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._host is None:
            raise ProtocolError(f"part {hello.part}, in a run whose workers are processes of this machine")
        await self._host(hello, reader, writer)

    def _make_room(self, writer: asyncio.StreamWriter) -> None:
        """Count a connection that has said nothing yet, in the place of the oldest one where there are too many."""
        peer = writer.get_extra_info("peername")
        if not isinstance(peer, tuple):
            return  # of this machine, by a socket that only the job's user can open
        address, counts = str(peer[0]), Counter(self._silent.values())
        crowded = address if counts[address] >= MOST_SILENT_OF_ONE else None
        if crowded is None and len(self._silent) >= MOST_SILENT:
            crowded = counts.most_common(1)[0][0]
        if crowded is not None:
            oldest = next(each for each, other in self._silent.items() if other == crowded)
            del self._silent[oldest]
            oldest.transport.abort()
        self._silent[writer] = address

    async def _welcome(self, reader: asyncio.StreamReader) -> Hello:
        try:
            line = await asyncio.wait_for(_first_line(reader), HELLO_S)
        except TimeoutError:
            raise ProtocolError(f"no hello within {HELLO_S:g} s") from None
        hello = WORKER_MESSAGES.decode(line)
        if not isinstance(hello, Hello):
            raise ProtocolError("the first message of a worker is a hello")
        if not hmac.compare_digest(hello.secret.encode(), self._secret.encode()):
            what = "a wrong secret" if hello.secret else "no secret"
            raise ProtocolError(f"a worker with {what}: it was not started by this run's agent")
        return hello

    def _take(self, worker_id: str, line: bytes) -> None:
        try:
            self._hear(worker_id, WORKER_MESSAGES.decode(line))
        except ProtocolError as error:
            self._doubt(worker_id, clean_text(str(error), _SHOWN))


async def _start_tls(writer: asyncio.StreamWriter, context: ssl.SSLContext) -> None:
    """Encrypt a connection; where the peer leaves meanwhile, the writer keeps a transport, so that it can be closed."""
    plain = writer.transport
    try:
        await writer.start_tls(context, ssl_handshake_timeout=HELLO_S)
    except AttributeError:  # there is no transport any more, which asyncio does not expect
        vars(writer)["_transport"] = plain
        raise ConnectionResetError("the peer left during its handshake") from None


async def _first_line(reader: asyncio.StreamReader) -> bytes:
    """Read up to the end of a line, of which an unknown peer may send no more than a hello has."""
    line = bytearray()
    with suppress(asyncio.IncompleteReadError):
        while not line.endswith(b"\n"):
            if len(line) == LONGEST_HELLO:
                raise ProtocolError(f"a hello of more than {LONGEST_HELLO} bytes")
            line += await reader.readexactly(1)
    return bytes(line)
