"""How fast the dashboard is: a real browser in front of one server with 5,000 jobs and 256 devices.

`python -m bench.web`

The server runs on a backend that starts nothing (:mod:`bench.null_backend`, made larger), in a process of its own; the
browser is Debian's Chromium without a screen. A page counts as there when a person can read it: from the start of the
navigation until its main content is visible, which for the first page is the picture of the cluster with its bars and
the figures above it. It counts as live once its connection is open and clicks are answered. The first page is opened
in a new profile, with nothing cached, from an empty tab that has come to rest. Updates are timed from the moment the
API has answered a submission until the new row is in the page. Wall times need a quiet machine; beside the first page
stands what it takes in CPU seconds, of the server and of all processes of the browser, which a busy machine changes
little.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
from playwright.sync_api import Browser, Page, sync_playwright
from rich.console import Console
from rich.table import Table

from bench.live import filled, plain_job, running
from bench.null_backend import NullBackend
from penstock.client import Client
from penstock.control import session_cookie
from penstock.core import Node
from penstock.serve import Config, serve

STORED = int(os.environ.get("BENCH_JOBS", "5000"))
NODES, DEVICES = 32, 8
ROUNDS = 5
UPDATES = 10
OPEN_PAGES = 5
WATCHED_S = 10.0
PATIENCE_MS = 60_000
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
PAGES = {
    "cluster": ("/ui/", "figure svg path[class^=ps-j]"),
    "jobs": ("/ui/jobs", ".ps-jobs tbody tr a"),
    "submit": ("/ui/submit", "textarea, input"),
    "tenants": ("/ui/tenants", ".ps-data tbody tr"),
    "nodes": ("/ui/nodes", "section .ps-slot"),
}


class LargeBackend(NullBackend):
    """The same nothing on 256 devices."""

    def nodes(self) -> tuple[Node, ...]:
        return tuple(Node(name=f"node-{number}", device_count=DEVICES) for number in range(NODES))


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        limits = {"requests_per_s": 1e9, "burst": 10**9}
        serve(Config(data_dir=Path(sys.argv[2]), backend="bench.web:LargeBackend", **limits))  # type: ignore[arg-type]
        return
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as name:
        data = Path(name)
        with running(data, "bench.web", "serve", name) as (client, process):
            filled(client, STORED)
            show(client, process)


def show(client: Client, process: psutil.Process) -> None:
    table = Table(title=f"Dashboard with {STORED} jobs and {NODES * DEVICES} devices; s, {ROUNDS} rounds")
    for column in ("what", "median", "worst", "target"):
        table.add_column(column)
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for row in measured(browser, client, process):
            print(*row, sep="  ", file=sys.stderr, flush=True)
            table.add_row(*row)
        browser.close()
    Console(width=110).print(table)


def measured(browser: Browser, client: Client, process: psutil.Process) -> Iterator[list[str]]:
    first = [opened(browser, client, process) for _ in range(ROUNDS)]
    yield row("first page, nothing cached, visible", [one.visible_s for one in first], "< 1.5")
    yield row("first page, nothing cached, live", [one.live_s for one in first])
    yield row("  CPU until it is live, server", [one.server_cpu_s for one in first])
    yield row("  CPU until it is live, browser", [one.browser_cpu_s for one in first])
    yield row("  CPU until it is live, together", [one.server_cpu_s + one.browser_cpu_s for one in first], "< 1.3")
    page = signed_in(browser, client)
    for name in PAGES:
        yield row(f"{name}, cached", [load(page, client, name) for _ in range(ROUNDS)])
    yield row("a submitted job reaches the list", updates(page, client), "< 1")
    yield row("a search in the list is answered", searches(page, client))
    yield from idle(browser, client, process)


def signed_in(browser: Browser, client: Client) -> Page:
    """A fresh profile with somebody's cookie, and nothing else."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    answer = httpx.get(client.sign_in_link(), follow_redirects=False, trust_env=False)
    name = session_cookie(client.url)
    cookie = {"name": name, "value": answer.cookies[name], "url": f"{client.url}/ui/"}
    context.add_cookies([cookie])  # type: ignore[list-item]
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    return page


def browsers_cpu_s() -> float:
    """What every process of the browser we started has used so far; those that end meanwhile are not in it."""
    used = 0.0
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            used += cpu_s(child) if "chrom" in child.name() else 0.0
    return used


def cpu_s(process: psutil.Process) -> float:
    return sum(process.cpu_times()[:2])


def at_rest() -> float:
    """The CPU seconds of the browser once it has nothing left to do; a new tab takes half a second to come up."""
    before, used = -1.0, browsers_cpu_s()
    while used - before > 0.01:
        time.sleep(0.3)
        before, used = used, browsers_cpu_s()
    return used


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The first page of somebody who has never been here but is signed in."""

    visible_s: float
    live_s: float
    server_cpu_s: float
    browser_cpu_s: float


def opened(browser: Browser, client: Client, process: psutil.Process) -> Opened:
    page = signed_in(browser, client)
    browser_used, server_used, began = at_rest(), cpu_s(process), time.perf_counter()
    try:
        visible = load(page, client, "cluster")
        page.wait_for_function("() => window.socket?.connected && !document.getElementById('ps-first')")
        return Opened(
            visible_s=visible, live_s=time.perf_counter() - began, server_cpu_s=cpu_s(process) - server_used,
            browser_cpu_s=browsers_cpu_s() - browser_used,
        )  # fmt: skip
    finally:
        page.context.close()


def load(page: Page, client: Client, name: str) -> float:
    path, content = PAGES[name]
    began = time.perf_counter()
    page.goto(client.url + path, wait_until="commit")
    page.locator(content).first.wait_for()
    return time.perf_counter() - began


def updates(page: Page, client: Client) -> list[float]:
    load(page, client, "jobs")
    taken = []
    for _ in range(UPDATES):
        job = client.submit(plain_job()).job.id
        taken.append(timed(lambda job=job: page.get_by_text(job).first.wait_for()))  # type: ignore[misc]
    return taken


def searches(page: Page, client: Client) -> list[float]:
    load(page, client, "jobs")
    field, taken = page.get_by_label("Search by name or id"), []
    for job in client.jobs(limit=ROUNDS, cursor="2000").jobs:
        field.fill(job.id)
        taken.append(timed(lambda job=job: page.get_by_text(job.id).first.wait_for()))  # type: ignore[misc]
    return taken


def idle(browser: Browser, client: Client, process: psutil.Process) -> Iterator[list[str]]:
    """What open pages cost a server on which nothing happens."""
    pages = [signed_in(browser, client) for _ in range(OPEN_PAGES)]
    for page in pages:
        load(page, client, "cluster")
    for count, what in ((OPEN_PAGES, f"{OPEN_PAGES} open cluster pages"), (0, "no page open")):
        for page in pages[count:]:
            page.context.close()
        time.sleep(25.0 if not count else 2.0)
        before = cpu_s(process)
        time.sleep(WATCHED_S)
        used = 100.0 * (cpu_s(process) - before) / WATCHED_S
        yield [f"CPU of the server, {what}", f"{used:.1f} %", "-", "-"]
    yield ["resident memory of the server", f"{process.memory_info().rss / 2**20:.0f} MiB", "-", "-"]


def timed(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


def row(what: str, seconds: list[float], target: str = "-") -> list[str]:
    return [what, f"{statistics.median(seconds):.2f}", f"{max(seconds):.2f}", target]


if __name__ == "__main__":
    main()
