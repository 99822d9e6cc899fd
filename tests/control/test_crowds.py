"""Many jobs and many listeners at once: counted, bounded, and in nobody's way."""

import contextlib
import socket
from urllib.parse import urlsplit

import psutil
import pytest

from penstock.control.state.store import Principal, Role
from tests.control.build import Platform
from tests.control.serving import serving, until

pytestmark = pytest.mark.long

MIB = 1 << 20
ADA = Principal(id="b", name="ada", role=Role.USER, tenant="blue")
EVE = Principal(id="c", name="eve", role=Role.USER, tenant="red")
FOLLOWERS = 300


def test_thousands_of_queued_jobs_leave_room_for_one_of_another_tenant(world: Platform) -> None:
    before = psutil.Process().memory_info().rss
    for _ in range(3_000):
        world.submit(ADA, work=1000)
    world.passes(3)
    mine = world.submit(EVE, work=5)
    world.passes(60)
    assert (psutil.Process().memory_info().rss - before) / MIB < 400
    with serving(world) as served, served.client("eve") as eve, served.client("ada") as ada:
        assert eve.job(mine).state in ("running", "finished"), "it had its turn among thousands"
        assert len(ada.jobs(limit=100).jobs) == 100
        with served.http("ada") as http:
            assert len(http.get("/v1/overview").content) < MIB
            assert http.get("/v1/jobs", params={"limit": 100_000}).status_code == 422
    world.restart()
    assert world.journal.state.active.count("blue") >= 2_900


def test_hundreds_of_followers_are_told_and_one_more_is_refused(world: Platform) -> None:
    tokens = world.journal.store.tokens
    job = world.submit(ADA, work=100_000)
    world.passes(2)
    with serving(world, max_streams=FOLLOWERS, max_streams_per_token=100) as served, contextlib.ExitStack() as held:
        address = urlsplit(served.url)
        secrets = [
            tokens.create(name="x", role=Role.USER, tenant="blue", now=1.0)[0] for _ in range(FOLLOWERS // 100 + 1)
        ]

        def follow(secret: str) -> socket.socket:
            line = held.enter_context(socket.create_connection(("127.0.0.1", address.port or 0), timeout=30))
            line.sendall(
                f"GET /v1/jobs/{job}/logs/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n\r\n".encode()
            )
            return line

        def status(line: socket.socket) -> int:
            return int(line.recv(12).split()[1])

        lines = []
        for number in range(FOLLOWERS):
            lines.append(follow(secrets[number // 100]))
            assert status(lines[-1]) == 200
        assert status(follow(secrets[0])) == 429, "a token has its share"
        assert status(follow(secrets[-1])) in (429, 503), "and there is an end for all together"
        with served.http() as http:
            assert http.get("/v1/jobs").status_code == 200
        world.commands.cancel(job, ADA)
        world.passes(3)
        for line in lines:
            until(lambda line=line: line.recv(65536) == b"", "the end of a stream", 300.0)
        with served.http("ada") as http:
            assert http.get("/v1/jobs").status_code == 200
