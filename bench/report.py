"""How large a report is and how fast it opens, and what a scrape of /metrics costs.

`python -m bench.report page`     5,000 generated jobs under five policies: size of the page, and the time until a real
                                  browser has drawn all of it, beside the older one-policy pictures of the same runs
`python -m bench.report scrape`   a server with 5,000 jobs stored: latency and the server's CPU time of one scrape, at
                                  rest and while more jobs come in

Without a word both run. BENCH_JOBS sets the number of jobs. Both need a few minutes; on a busy machine compare CPU
times, wall times are upper bounds.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
from rich.console import Console
from rich.table import Table

from bench.live import filled, running
from penstock.core import Cluster
from penstock.simulate import Result, Setting, Workload, compare, draw
from penstock.simulate.report import write_report
from penstock.simulate.traces import Profiles, Trace, generate

JOBS = int(os.environ.get("BENCH_JOBS", "5000"))
POLICIES = ("deadline", "elasticflow", "edf", "tiresias", "fifo")
CLUSTER = "32x8"
INTERVAL_S = 240.0
OPENINGS = 5
RUSH = 1000
SCRAPES = 50
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
_DRAWN = "performance.getEntriesByName('ready')[0]?.startTime"
_LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd"


def main() -> None:
    chosen = sys.argv[1:]
    if not chosen or "page" in chosen:
        page()
    if not chosen or "scrape" in chosen:
        scrape()


def table(title: str, *columns: str) -> Table:
    made = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        made.add_column(column, justify="right" if place else "left")
    return made


# --- the page -----------------------------------------------------------------------------------------------------


def page() -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("skipped: no browser; tests/tools/install-engines installs one")
        return
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        made = table(
            f"{JOBS} jobs on {CLUSTER}, best of {OPENINGS} openings", "page", "size MB", "target", "made, CPU s",
            "drawn after, s", "worst", "target",
        )  # fmt: skip
        for label, path, cpu_s, drawn in pages(folder):
            times = [opened(browser, path, drawn) for _ in range(OPENINGS)]
            ours = label == "report"
            made.add_row(
                label, f"{path.stat().st_size / 1e6:.2f}", "< 5" if ours else "-", f"{cpu_s:.1f}", f"{min(times):.2f}",
                f"{max(times):.2f}", "< 3" if ours else "-",
            )  # fmt: skip
        Console(width=120).print(made)


def pages(folder: Path) -> Iterator[tuple[str, Path, float, str]]:
    profiles = Profiles.builtin()
    jobs = generate(JOBS, seed=7, profiles=profiles, mean_interval_s=INTERVAL_S, best_effort=0.1)
    workload = Workload(trace=Trace.assemble("generated", "plain", jobs), profiles=profiles)
    setting = Setting(cluster=Cluster.parse(CLUSTER), overhead="measured", timeline=True)
    results = compare(POLICIES, workload, setting)
    target = folder / "report.html"
    cpu_s = timed(lambda: write_report(target, workload, setting, results))
    yield "report", target, cpu_s, _DRAWN
    yield from pictures(folder, results, setting)


def pictures(folder: Path, results: Sequence[Result], setting: Setting) -> Iterator[tuple[str, Path, float, str]]:
    """The older way, one SVG per policy: the busiest and the calmest run."""
    by_bars = sorted(results, key=lambda result: len(result.timeline.bars if result.timeline else ()))
    for result in (by_bars[0], by_bars[-1]):
        target = folder / f"{result.summary.policy}.html"
        cpu_s = timed(lambda result=result, target=target: target.write_text(draw(result, setting.cluster)))  # type: ignore[misc]
        yield f"picture of {result.summary.policy} alone", target, cpu_s, _LOADED


def timed(work: Callable[[], Any]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def opened(browser: str, path: Path, drawn: str) -> float:
    """Seconds from the navigation to the moment everything is drawn, in a fresh browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser, args=list(FLAGS))
        tab = started.new_page()
        tab.goto(path.as_uri(), wait_until="load", timeout=120_000)
        if drawn == _DRAWN:
            tab.wait_for_selector("html[data-ready=yes]", state="attached", timeout=120_000)
        milliseconds = float(tab.evaluate(drawn))
        started.close()
    return milliseconds / 1e3


# --- the scrape ---------------------------------------------------------------------------------------------------


def scrape() -> None:
    with served() as (url, process, fill):
        made = table(
            f"/metrics, {SCRAPES} scrapes each", "jobs stored", "p50 ms", "p99 ms", "CPU ms", "size KB", "target"
        )
        for count in (0, JOBS):
            fill(count)
            made.add_row(*measured(url, process, str(count)), "< 50 ms" if count else "-")
        with ThreadPoolExecutor(1) as pool:
            rush = pool.submit(fill, RUSH)
            made.add_row(*measured(url, process, f"{JOBS}, while {RUSH} more come"), "< 50 ms")
            rush.result()
        Console(width=120).print(made)


@contextmanager
def served() -> Iterator[tuple[str, psutil.Process, Callable[[int], object]]]:
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as name,
        running(Path(name), "bench.live", "serve", name) as (client, process),
    ):
        yield client.url, process, lambda count: filled(client, count) if count else None


def measured(url: str, process: psutil.Process, stored: str) -> list[str]:
    """Latency as Prometheus sees it, and what the server works for it."""
    with httpx.Client(base_url=url, trust_env=False, timeout=30.0) as http:
        size = len(http.get("/metrics").content)
        before, taken = sum(process.cpu_times()[:2]), []
        for _ in range(SCRAPES):
            began = time.perf_counter()
            http.get("/metrics").raise_for_status()
            taken.append(1e3 * (time.perf_counter() - began))
        cpu_ms = 1e3 * (sum(process.cpu_times()[:2]) - before) / SCRAPES
    worst = sorted(taken)[-max(1, SCRAPES // 100)]
    return [stored, f"{statistics.median(taken):.1f}", f"{worst:.1f}", f"{cpu_ms:.1f}", f"{size / 1e3:.0f}"]


if __name__ == "__main__":
    main()
