"""Requests over the standard library: connections kept, renewed and bounded, and one kind of error."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from penstock.client.transport import Transport
from penstock.core import InputError
from penstock.wire import UnavailableError


class Listener(BaseHTTPRequestHandler):
    """Says what it was asked, and by which connection; closes it where the path says so, without announcing it."""

    protocol_version = "HTTP/1.1"
    connections = 0
    ended = threading.Semaphore(0)

    def setup(self) -> None:
        super().setup()
        Listener.connections += 1

    def finish(self) -> None:
        super().finish()
        self.connection.shutdown(socket.SHUT_RDWR)
        Listener.ended.release()

    def do_GET(self) -> None:
        if self.path == "/silence":
            time.sleep(1.0)
        if self.path == "/lines":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"6\r\none\ntw\r\n5\r\no\n\xc3\xa9\n\r\n0\r\n\r\n")
            return
        self._say({"path": self.path, "who": self.headers.get("Authorization"), "connection": Listener.connections})
        self.close_connection = self.path == "/last"

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._say({"got": document, "key": self.headers.get("Idempotency-Key")}, status=422)

    def _say(self, document: dict[str, object], status: int = 200) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: tests are quiet."""


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Listener) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        Listener.connections = 0
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def transport(address: str) -> Iterator[Transport]:
    opened = Transport(address + "/base/", {"Authorization": "Bearer x"}, timeout_s=10.0)
    yield opened
    opened.close()


def test_requests_of_a_thread_share_a_connection(transport: Transport) -> None:
    said = [transport.request("GET", "/jobs", params={"state": ["a", "b"], "limit": 3}).document() for _ in range(3)]
    assert said == [{"path": "/base/jobs?state=a&state=b&limit=3", "who": "Bearer x", "connection": 1}] * 3


def test_threads_do_not_wait_for_each_other(transport: Transport) -> None:
    transport.request("GET", "/")
    other = threading.Thread(target=transport.request, args=("GET", "/"))
    other.start()
    other.join()
    assert Listener.connections == 2


def test_a_connection_that_the_server_closed_is_renewed(address: str) -> None:
    transport = Transport(address, {}, timeout_s=10.0)
    Listener.ended = threading.Semaphore(0)
    transport.request("GET", "/last")
    assert Listener.ended.acquire(timeout=30)
    assert transport.request("GET", "/").document()["connection"] == 2
    transport.close()


def test_an_error_is_an_answer(transport: Transport) -> None:
    answer = transport.request("POST", "/jobs", json={"work": 3}, headers={"Idempotency-Key": "k"})
    assert answer.is_error
    assert answer.document() == {"got": {"work": 3}, "key": "k"}


def test_lines_are_whole_whatever_the_chunks(address: str) -> None:
    with Transport(address, {}, timeout_s=10.0).stream("/lines") as (status, lines):
        assert (status, [line.decode() for line in lines]) == (200, ["one\n", "two\n", "é\n"])


def test_nobody_there_is_one_kind_of_error() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        with pytest.raises(UnavailableError, match="refused"):
            Transport(f"http://127.0.0.1:{reserved.getsockname()[1]}", {}, timeout_s=1.0).request("GET", "/")


def test_an_answer_that_does_not_come_in_time_is_an_error(address: str) -> None:
    with pytest.raises(UnavailableError, match="timed out"):
        Transport(address, {}, timeout_s=0.2).request("GET", "/silence")


@pytest.mark.parametrize("url", ["127.0.0.1:80", "ftp://host", "http://"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="not the address of a server"):
        Transport(url, {}, timeout_s=1.0)
