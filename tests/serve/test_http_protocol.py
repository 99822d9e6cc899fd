"""What one connection may cost before anybody is known: real sockets, real bytes."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
import uvicorn

from penstock.serve import http_protocol as module
from penstock.serve.http_protocol import PlainProtocol, http_protocol
from tests.control.serving import until


async def application(scope: Any, receive: Any, send: Any) -> None:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture(params=["httptools", "h11"])
def port(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(module, "HEADERS_WITHIN_S", 1.0)
    protocol: type[asyncio.Protocol] = http_protocol() if request.param == "httptools" else PlainProtocol
    config = uvicorn.Config(application, port=0, log_config=None, lifespan="off", http=protocol)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started, "the server")
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(10)


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def answered(connection: socket.socket) -> bytes:
    """Everything until the server hangs up, or has answered."""
    said = b""
    while chunk := connection.recv(65536):
        said += chunk
        if said.endswith(b"ok"):
            break
    return said


def test_headers_without_end_are_refused_before_they_fill_the_memory(port: int) -> None:
    process, line = psutil.Process(), b"x-filler: " + b"y" * 8000 + b"\r\n"
    with connected(port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n")
        before, sent = process.memory_info().rss, 0
        try:
            for _ in range(10_000):
                connection.sendall(line)
                sent += len(line)
        except OSError:
            pass
        assert sent < 20_000_000, "80 MB of headers were taken"
        assert process.memory_info().rss - before < 50_000_000


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: ", b"GE"])
def test_headers_have_to_end_in_time(port: int, begun: bytes) -> None:
    with connected(port) as connection:
        connection.sendall(begun)
        assert answered(connection).startswith(b"HTTP/1.1 408")


def test_a_trickle_does_not_set_the_clock_back(port: int) -> None:
    with connected(port) as connection:
        connection.settimeout(0.2)
        connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: ")
        for _ in range(60):
            try:
                connection.sendall(b"y")
                if connection.recv(100).startswith(b"HTTP/1.1 408"):
                    return
            except TimeoutError:
                continue
            except OSError:
                return
        pytest.fail("a connection lived for 12 s on one byte every fifth of a second")


def test_requests_as_they_should_be_are_answered_one_after_the_other(port: int) -> None:
    with connected(port) as connection:
        for _ in range(3):
            connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            assert answered(connection).endswith(b"ok")
        connection.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 300000\r\n\r\n" + b"z" * 300_000)
        assert answered(connection).endswith(b"ok")
        chunked = b"".join(b"1\r\nz\r\n" for _ in range(30_000)) + b"0\r\n\r\n"
        connection.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n" + chunked)
        assert answered(connection).endswith(b"ok")


def test_what_comes_around_a_body_is_counted_as_well(port: int) -> None:
    trailers = b"".join(b"x-trailer-%d: %s\r\n" % (number, b"y" * 1000) for number in range(2000))
    with connected(port) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\nz\r\n0\r\n")
        try:
            connection.sendall(trailers + b"\r\n")
            assert not answered(connection).endswith(b"ok"), "2 MB of trailers were taken"
        except OSError:
            pass
