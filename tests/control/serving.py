"""The real API on a real socket, in front of a platform whose time the test turns."""

import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import uvicorn

from penstock.client import Client
from penstock.control.api import create_app
from penstock.control.state.store import Role
from penstock.serve.http_protocol import http_protocol
from tests.control.build import Platform

_TRUST = ssl.create_default_context()
"""One for all clients: each would read all authorities of the world for a connection that needs none."""


def until(condition: Callable[[], Any], what: str, within_s: float = 20.0) -> Any:
    """Poll until something is true."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(f"still waiting for {what} after {within_s} s")


def end_everything_on(data_dir: Path) -> None:
    """Whatever was started on a data directory is gone afterwards: its runs first, then its server."""
    for file in (*data_dir.glob("runs/*/agent.json"), data_dir / "server.json"):
        _end_family(file)


def _end_family(file: Path) -> None:
    try:
        process = psutil.Process(int(json.loads(file.read_text())["pid"]))
        family = [*process.children(recursive=True), process]
    except (OSError, ValueError, KeyError, psutil.Error):
        return
    assert os.getpid() not in {member.pid for member in family}, f"{file} names a process that the tests run below"
    for member in family:
        if member.is_running():
            member.kill()
    psutil.wait_procs(family, timeout=10)


@dataclass
class Served:
    """A platform with an address."""

    world: Platform
    url: str
    secrets: dict[str, str]

    def client(self, who: str = "admin") -> Client:
        return Client(self.url, self.secrets[who])

    @contextmanager
    def connection(self, who: str, path: str) -> Iterator[socket.socket]:
        """A connection on which somebody has asked for a path and reads no answer; it ends with the block."""
        host, port = self.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as line:
            line.sendall(
                f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {self.secrets[who]}\r\n\r\n".encode()
            )
            yield line

    def http(self, who: str | None = "admin") -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.secrets[who]}"} if who else {}
        return httpx.Client(base_url=self.url, headers=headers, verify=_TRUST, trust_env=False, timeout=10.0)


def leave_one_tenant(served: Served) -> None:
    """Revoke the tokens of all tenants but the admin's."""
    for token in served.world.journal.store.tokens.list():
        if token.tenant != "default":
            served.world.platform.credentials.revoke(token.id)


@contextmanager
def serving(world: Platform, **limits: Any) -> Iterator[Served]:
    tokens = world.journal.store.tokens
    people = {"admin": (Role.ADMIN, "default"), "ada": (Role.USER, "blue"), "eve": (Role.USER, "red")}
    secrets = {
        name: tokens.create(name=name, role=role, tenant=tenant, now=1.0)[0] for name, (role, tenant) in people.items()
    }
    world.reconciler.trouble = ""
    config = uvicorn.Config(
        create_app(world.platform, world.metrics, **limits),
        port=0,
        log_config=None,
        lifespan="off",
        timeout_graceful_shutdown=5,
        http=http_protocol(),
        proxy_headers=False,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started, "the server")
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Served(world, f"http://127.0.0.1:{port}", secrets)
    finally:
        world.platform.stopping.set()
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive(), "the server does not stop"
