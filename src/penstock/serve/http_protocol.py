"""HTTP as uvicorn speaks it, with a bound on what one connection may cost before anybody is known.

A request's headers have to be complete within some seconds and fit into some kilobytes; what comes around a body
(chunk sizes, trailers) counts as well. The application bounds bodies and rates itself; it never sees what is refused
here.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_HEADER_BYTES = 64 * 1024
HEADERS_WITHIN_S = 10.0
_FRAMING_PER_BYTE = 8
"""The most that chunked encoding may add to each byte of a body."""

if TYPE_CHECKING:
    _Protocol = H11Protocol
else:
    _Protocol = object


class HeaderDeadline(_Protocol):
    """Mixed into a protocol: a connection that does not finish the headers it began, or begins none, is closed."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._arm()

    def data_received(self, data: bytes) -> None:
        self._arm()
        super().data_received(data)
        if self._is_answering() or self.transport.is_closing():
            self._disarm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, *request: Any) -> None:
        self._disarm()
        super().handle_websocket_upgrade(*request)

    def on_response_complete(self) -> None:
        self._disarm()
        super().on_response_complete()

    def refuse(self, status: bytes) -> None:
        """Say why in one line, and hang up."""
        self._disarm()
        if not self.transport.is_closing():
            if not self._is_answering():
                self.transport.write(b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            self.transport.close()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _arm(self) -> None:
        """The clock starts with the first byte and is not set back by the next."""
        if self._deadline is None and not self._is_answering():
            self._deadline = self.loop.call_later(HEADERS_WITHIN_S, self.refuse, b"408 Request Timeout")

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class PlainProtocol(HeaderDeadline, H11Protocol):
    """On h11, which bounds the size of headers by itself."""


def http_protocol() -> type[asyncio.Protocol]:
    """The protocol of a server: on httptools where it is installed, which is much faster, else on h11."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return PlainProtocol

    class FastProtocol(HeaderDeadline, HttpToolsProtocol):  # type: ignore[misc]
        """On httptools, which would take headers of any size: what is not body is counted for each request."""

        _framing = 0
        _body = 0

        def data_received(self, data: bytes) -> None:
            self._framing += len(data)
            super().data_received(data)
            if self._framing > MAX_HEADER_BYTES + _FRAMING_PER_BYTE * self._body:
                self.refuse(b"431 Request Header Fields Too Large")

        def on_message_begin(self) -> None:
            self._framing = self._body = 0
            super().on_message_begin()

        def on_body(self, body: bytes) -> None:
            self._framing -= len(body)
            self._body += len(body)
            super().on_body(body)

    return FastProtocol
