"""HTTP as the client needs it, on the standard library: a general library takes longer to load than ``ps`` to run."""

import http.client
import json
import select
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from penstock.core import InputError
from penstock.wire import UnavailableError

STREAM_SILENCE_S = 60.0
"""Streams say at least something more often than that."""


_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said to one request."""

    status: int
    body: bytes

    @property
    def is_error(self) -> bool:
        return self.status >= 400

    def document(self) -> Any:
        """The body as JSON, ``None`` if there is none."""
        return json.loads(self.body) if self.body else None


class Transport:
    """Requests to one server, over a connection per thread that is kept open; no proxy of the environment is used."""

    def __init__(
        self, url: str, headers: Mapping[str, str], *, timeout_s: float, trust: ssl.SSLContext | None = None
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"not the address of a server: {url!r}", hint="an address such as http://127.0.0.1:18470")
        self._url = url
        self._address = (parts.hostname, parts.port)
        self._is_secure, self._path = parts.scheme == "https", parts.path.rstrip("/")
        self._headers, self._timeout_s, self._trust = dict(headers), timeout_s, trust
        self._kept = threading.local()
        self._open: set[http.client.HTTPConnection] = set()

    def close(self) -> None:
        for connection in list(self._open):
            connection.close()
        self._open.clear()

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """One request and its whole answer; one that may take ``timeout_s`` has a connection of its own."""
        connection = self._connection() if timeout_s is None else self._new_connection(timeout_s)
        try:
            response = self._send(connection, method, path, params, json, headers)
            return Answer(response.status, response.read())
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._unreachable(error) from error
        finally:
            if timeout_s is not None:
                connection.close()
                self._open.discard(connection)

    @contextmanager
    def stream(
        self, path: str, *, params: Mapping[str, Any] | None = None, json: Any = None
    ) -> Iterator[tuple[int, Iterator[bytes]]]:
        """The status and the lines of an answer that goes on and on, over a connection of its own."""
        connection = self._new_connection(STREAM_SILENCE_S)
        try:
            response = self._send(connection, "GET" if json is None else "POST", path, params, json, None)
            yield response.status, response
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()
            self._open.discard(connection)

    @contextmanager
    def download(self, path: str, *, params: Mapping[str, Any]) -> Iterator[tuple[int, Iterator[bytes]]]:
        """The status and the pieces of a long answer, over a connection of its own; one that breaks off is an error."""
        connection = self._new_connection(STREAM_SILENCE_S)
        try:
            response = self._send(connection, "GET", path, params, None, None)
            yield response.status, _pieces(response)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()
            self._open.discard(connection)

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        params: Mapping[str, Any] | None,
        document: Any,
        headers: Mapping[str, str] | None,
    ) -> http.client.HTTPResponse:
        target = self._path + path + (f"?{urlencode(params, doseq=True)}" if params else "")
        body = None if document is None else json.dumps(document, allow_nan=False).encode()
        kind = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, target, body, {**self._headers, **kind, **(headers or {})})
        return connection.getresponse()

    def _connection(self) -> http.client.HTTPConnection:
        """The one of this thread; a new one if the server has closed it meanwhile, so that nothing is sent in vain."""
        kept: http.client.HTTPConnection | None = getattr(self._kept, "connection", None)
        if kept is None:
            kept = self._kept.connection = self._new_connection(self._timeout_s)
        elif kept.sock is not None and select.select([kept.sock], [], [], 0)[0]:
            kept.close()
        return kept

    def _new_connection(self, timeout_s: float) -> http.client.HTTPConnection:
        host, port = self._address
        connection = (
            http.client.HTTPSConnection(
                host, port, timeout=timeout_s, context=self._trust or ssl.create_default_context()
            )
            if self._is_secure
            else http.client.HTTPConnection(host, port, timeout=timeout_s)
        )
        self._open.add(connection)
        return connection

    def _unreachable(self, error: Exception) -> UnavailableError:
        said = str(error) or type(error).__name__
        return UnavailableError(
            f"{self._url} does not answer ({said})", "a running server", "Start one: penstock serve"
        )


def _pieces(response: http.client.HTTPResponse) -> Iterator[bytes]:
    expected, got = int(response.headers.get("Content-Length") or 0), 0
    while piece := response.read(_PIECE):
        got += len(piece)
        yield piece
    if got < expected:
        raise http.client.IncompleteRead(b"", expected - got)
