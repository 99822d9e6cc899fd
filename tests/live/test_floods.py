"""A real server under more than it was made for: it stays as large as it is, answers others, and recovers."""

import contextlib
import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from penstock.client import DataDir
from tests.live.site import OVER, Site, until
from tests.live.test_unruly_jobs import python, state_of, submit

MIB = 1 << 20
_METRICS = """
values = " ".join(f"m{number}={number}.5" for number in range(10))
for step in range(1, 100_001):
    print(f"penstock: step={step} total=100000 {values}")
"""
_GARBAGE = """
import os, sys
sys.stdout.buffer.write(os.urandom(1 << 20) + b"\\n")
for _ in range(64):
    sys.stdout.buffer.write(b"\\xff\\0\\x1b[2J" * (1 << 17))
sys.stdout.buffer.write(b"\\nthe end\\n")
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path, slots=2)
    yield found
    found.close()


def server_of(site: Site) -> psutil.Process:
    pid = site.server_pid()
    assert pid is not None
    return psutil.Process(pid)


def rss(site: Site) -> float:
    return server_of(site).memory_info().rss / MIB


@pytest.mark.long
@pytest.mark.parametrize("flood", [_METRICS, _GARBAGE], ids=["a million metric values", "binary lines of 32 MiB"])
def test_what_a_job_says_does_not_grow_the_server(site: Site, flood: str) -> None:
    warm = submit(site, ["true"])
    until(lambda: state_of(site, warm) == "finished", "a first job")
    before = rss(site)
    loud = submit(site, python(flood), retries=0)
    until(site.workers, "its worker")
    quick = submit(site, ["true"])
    until(lambda: state_of(site, quick) == "finished", "a job beside it")
    until(lambda: state_of(site, loud) in OVER, "its end", within_s=400.0)
    assert state_of(site, loud) == "finished"
    for question in ("metrics", "logs", "events", "hotspots"):
        site.ask(lambda client, question=question: getattr(client, question)(loud))
    assert len(site.ask(lambda client: client.why(loud)).model_dump_json()) < MIB
    assert rss(site) - before < 150


@pytest.mark.long
def test_a_server_without_descriptors_recovers_when_clients_leave(site: Site) -> None:
    warm = submit(site, ["true"])
    until(lambda: state_of(site, warm) == "finished", "a first job")
    server = server_of(site)
    limit = server.num_fds() + 30
    before = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    address = DataDir(site.data).address()
    assert address is not None
    parts = urlsplit(address.url)
    with contextlib.ExitStack() as held:
        for _ in range(100):
            held.enter_context(socket.create_connection((str(parts.hostname), parts.port or 0), timeout=20))
        until(lambda: server.num_fds() >= limit - 1, "every descriptor to be in use")
    until(lambda: server.num_fds() < limit - 20, "the descriptors to come back")
    assert httpx.get(f"{address.url}/readyz", trust_env=False, timeout=60).status_code == 200
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, before)
    quick = submit(site, ["true"])
    until(lambda: state_of(site, quick) == "finished", "a job afterwards")
    assert server_of(site) == server, "it is the same server"
