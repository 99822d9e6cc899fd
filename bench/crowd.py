"""A server with a crowd in front of it: open dashboards, followers of a log, and a stream of submissions.

`python -m bench.crowd [--seconds 60] [--dashboards 200] [--followers 500] [--rate 100]`

Every dashboard is a signed-in session with its page and its socket, every follower a log stream of one job; submissions
come at a steady rate whatever the answers do, with jobs that end as soon as they were started (no processes). The
server's limits on requests are lifted by configuration. Server and crowd share the processors of this machine.
"""

import argparse
import ast
import asyncio
import json
import re
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import httpx
import psutil
from rich.console import Console
from rich.table import Table
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException
from websockets.typing import Origin

from bench.live import percentile, running
from bench.null_backend import OUTPUT, NullBackend
from penstock.client import Client
from penstock.control import session_cookie
from penstock.core import Launch, ReportKind
from penstock.serve import Config, serve

_SPEC = {
    "command": "train", "work": "10 steps", "best_effort": True, "devices": "1..", "environment": {"working_dir": "/"},
}  # fmt: skip
_LOOK_EVERY_S = 1.0
_TOKENS = 5
_CONNECTIONS = 24
_TROUBLES = (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, httpx.HTTPError, WebSocketException)


class EndingBackend(NullBackend):
    """Runs end as they begin, but for the first, whose output is followed."""

    def launch(self, launch: Launch) -> None:
        is_new = launch.run_id not in self._reports
        super().launch(launch)
        if is_new and len(self._reports) > 1:
            self._end(launch.run_id, ReportKind.FINISHED)


@dataclass(slots=True)
class CrowdFigures:
    """What the crowd saw and what the server took."""

    submitted_s: list[float] = field(default_factory=list)
    line_s: list[float] = field(default_factory=list)
    page_s: list[float] = field(default_factory=list)
    updates: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    rss: list[int] = field(default_factory=list)
    threads: int = 0
    descriptors: int = 0
    cpu_s: float = 0.0

    def fail(self, what: str, error: object) -> None:
        key = f"{what}: {str(error)[:60] or type(error).__name__}"
        self.errors[key] = self.errors.get(key, 0) + 1


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many come, for how long, and where."""

    url: str
    tokens: list[str]
    job: str
    output: Path
    seconds: float
    dashboards: int
    followers: int
    rate: float
    figures: CrowdFigures = field(default_factory=CrowdFigures)

    async def come(self, process: psutil.Process) -> None:
        began = sum(process.cpu_times()[:2])
        async with httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=60) as http:
            pages = [await self._page(http, number) for number in range(self.dashboards)]
        ends_at = time.monotonic() + self.seconds
        queue: asyncio.Queue[float] = asyncio.Queue()
        tasks = [
            *(self._watch(page, ends_at) for page in pages if page),
            *(self._follow(number, ends_at) for number in range(self.followers)),
            *(self._submit(queue, ends_at) for _ in range(_CONNECTIONS)),
            self._clock(queue, ends_at), self._write(ends_at), self._measure(process, ends_at),
        ]  # fmt: skip
        await asyncio.gather(*tasks)
        self.figures.cpu_s = sum(process.cpu_times()[:2]) - began

    async def _page(self, http: httpx.AsyncClient, number: int) -> tuple[str, str] | None:
        """A signed-in browser with an open page: what it needs to connect, and its cookie."""
        try:
            form = {"token": self.tokens[number % len(self.tokens)]}
            answer = await http.post("/ui/sign-in", data=form)
            cookie = answer.cookies[session_cookie(self.url)]
            began = time.perf_counter()
            page = await http.get("/ui/jobs", headers={"Cookie": f"{session_cookie(self.url)}={cookie}"})
            self.figures.page_s.append(time.perf_counter() - began)
            http.cookies.clear()
            query = ast.literal_eval(re.search(r"query: (\{.*?\})", page.text)[1])  # type: ignore[index]
        except (*_TROUBLES, KeyError, TypeError) as error:
            self.figures.fail("page", error)
            return None
        query |= {
            "implicit_handshake": "true",
            "document_id": "d",
            "tab_id": f"t{number}",
            "EIO": "4",
            "transport": "websocket",
        }
        return urlencode(query), cookie

    async def _watch(self, page: tuple[str, str], ends_at: float) -> None:
        query, cookie = page
        address = f"{self.url.replace('http', 'ws')}/ui/_nicegui_ws/socket.io/?{query}"
        headers = {"Cookie": f"{session_cookie(self.url)}={cookie}"}
        try:
            async with connect(
                address, origin=Origin(self.url), additional_headers=headers, proxy=None, max_size=None
            ) as socket:
                await socket.send("40")
                while (left := ends_at - time.monotonic()) > 0:
                    with suppress(TimeoutError):
                        message = await asyncio.wait_for(socket.recv(), left)
                        self.figures.updates += 1
                        if message == "2":
                            await socket.send("3")
        except _TROUBLES as error:
            self.figures.fail("dashboard", error)

    async def _follow(self, number: int, ends_at: float) -> None:
        try:
            async with asyncio.timeout(max(ends_at - time.monotonic(), 0.1)):
                reader, writer = await self._connection()
                writer.write(self._head("GET", f"/v1/jobs/{self.job}/logs/stream", number) + b"\r\n")
                status = await reader.readline()
                if b" 200 " not in status:
                    raise ValueError(status.decode().strip())
                while line := await reader.readline():
                    now = time.time()
                    self.figures.line_s.extend(now - float(at) for at in re.findall(rb"at=([0-9.]+)", line))
                raise ValueError("the stream ended")
        except TimeoutError:
            return
        except _TROUBLES as error:
            self.figures.fail("follower", error)

    async def _clock(self, queue: "asyncio.Queue[float]", ends_at: float) -> None:
        """When each submission is due; a server that is late does not slow them down."""
        due = time.monotonic()
        while due < ends_at:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            queue.put_nowait(time.monotonic())
            due += 1.0 / self.rate

    async def _submit(self, queue: "asyncio.Queue[float]", ends_at: float) -> None:
        body = json.dumps(_SPEC).encode()
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        while True:
            try:
                async with asyncio.timeout(max(ends_at - time.monotonic(), 0.01)):
                    due = await queue.get()
            except TimeoutError:
                return
            try:
                connection = connection or await self._connection()
                await self._post(*connection, body, due)
            except _TROUBLES as error:
                self.figures.fail("submission", error)
                connection = None

    async def _post(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes, due: float) -> None:
        head = self._head("POST", "/v1/jobs", int(due * 1e3))
        writer.write(head + f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        async with asyncio.timeout(60):
            answer = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", answer, re.IGNORECASE)
            await reader.readexactly(int(length[1]) if length else 0)
        self.figures.submitted_s.append(time.monotonic() - due)
        if b" 201 " not in answer.split(b"\r\n", 1)[0]:
            self.figures.fail("submission", answer.split(b"\r\n", 1)[0].decode())

    async def _write(self, ends_at: float) -> None:
        """A line for everybody, once a second; it says when it was written."""
        while time.monotonic() < ends_at - 3:
            with self.output.open("a") as file:
                file.write(f"at={time.time():.6f}\n")
            await asyncio.sleep(1.0)

    async def _measure(self, process: psutil.Process, ends_at: float) -> None:
        while time.monotonic() < ends_at:
            self.figures.rss.append(process.memory_info().rss)
            self.figures.threads = max(self.figures.threads, process.num_threads())
            self.figures.descriptors = max(self.figures.descriptors, process.num_fds())
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self.url)
        return await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 22)

    def _head(self, method: str, path: str, number: int) -> bytes:
        token = self.tokens[number % len(self.tokens)]
        return f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n".encode()


def rows(crowd: Crowd) -> list[list[str]]:
    figures = crowd.figures
    per_second = len(figures.submitted_s) / crowd.seconds
    middle = figures.rss[len(figures.rss) // 2] if figures.rss else 0
    return [
        ["errors", str(sum(figures.errors.values()))],
        *([f"  {what}", str(many)] for what, many in sorted(figures.errors.items())),
        ["pages opened", f"{len(figures.page_s)} of {crowd.dashboards}, {_times(figures.page_s)}"],
        ["updates to pages", f"{figures.updates} ({figures.updates / crowd.seconds:.0f} a second)"],
        ["submissions", f"{len(figures.submitted_s)} ({per_second:.0f} a second), {_times(figures.submitted_s)}"],
        ["lines to followers", f"{len(figures.line_s)}, {_times(figures.line_s)}"],
        ["resident memory, half way and at the end", f"{middle >> 20} and {(figures.rss or [0])[-1] >> 20} MiB"],
        ["threads, descriptors at most", f"{figures.threads}, {figures.descriptors}"],
        ["processor of the server", f"{100 * figures.cpu_s / crowd.seconds:.0f} % of a core"],
        ["  for each submission, all in all", f"{1e3 * figures.cpu_s / max(1, len(figures.submitted_s)):.1f} ms"],
    ]


def _times(values: list[float]) -> str:
    if not values:
        return "-"
    return f"p50 {1e3 * statistics.median(values):.0f} ms, p99 {1e3 * percentile(values):.0f} ms"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.crowd", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--dashboards", type=int, default=200)
    parser.add_argument("--followers", type=int, default=500)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def prepared(client: Client, data: Path, asked: argparse.Namespace) -> Crowd:
    made = [client.make_token(name=f"crowd-{number}", tenant="default").secret or "" for number in range(_TOKENS)]
    first = client.submit({**_SPEC, "name": "followed", "work": "1000000 steps"}).job.id
    while client.job(first).state != "running":
        time.sleep(0.05)
    return Crowd(client.url, made, first, data / OUTPUT, asked.seconds, asked.dashboards, asked.followers, asked.rate)


def main() -> None:
    asked = arguments()
    if asked.serve is not None:
        serve(
            Config(
                data_dir=asked.serve, backend="bench.crowd:EndingBackend", requests_per_s=1e9, burst=10**9,
                accept_shared_user=True,
            )
        )  # fmt: skip
        return
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        with running(data, "bench.crowd", "--serve", folder) as (client, process):
            crowd = prepared(client, data, asked)
            asyncio.run(crowd.come(process))
        table = Table("what", "seen", title=f"{asked.dashboards} dashboards, {asked.followers} followers, "
                      f"{asked.rate:.0f} submissions a second for {asked.seconds:.0f} s")  # fmt: skip
        for row in rows(crowd):
            table.add_row(*row)
        Console().print(table)
    sys.exit(1 if crowd.figures.errors else 0)


if __name__ == "__main__":
    main()
