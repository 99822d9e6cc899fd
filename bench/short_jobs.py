"""How many trivial jobs a second one machine gets through, and how long a submission takes beside them.

``python -m bench.short_jobs [JOBS] [SLOTS]`` starts a real server on this machine with SLOTS made-up slots, submits
JOBS jobs that run ``true`` (by one client, each in a request of its own), and prints a table. It ends after
``LIMIT_S`` at the latest, and says how far it came then.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from penstock.client import Client, DataDir, ensure_server

JOBS, SLOTS = 1000, 8
LIMIT_S = 600.0
_PAGE = 1000


def main() -> None:
    count, slots = (int(given) for given in (sys.argv[1:] + [str(JOBS), str(SLOTS)][len(sys.argv) - 1 :])[:2])
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        data = Path(folder) / "data"
        client = ensure_server(data, options=["--slots", str(slots)], within_s=60.0)
        try:
            _print_table(*_measured(client, Path(folder), count), count, slots)
        finally:
            client.close()
            _end(data)


def _measured(client: Client, folder: Path, count: int) -> tuple[list[float], float, float, int]:
    """Seconds of each submission, of all submissions, until all jobs were over, and how many then were."""
    first = client.submit(_job(folder)).job.id
    _wait(client, 1)
    assert client.job(first).state == "finished"
    began = time.perf_counter()
    took = []
    for _ in range(count):
        at = time.perf_counter()
        client.submit(_job(folder))
        took.append(time.perf_counter() - at)
    submitted_s = time.perf_counter() - began
    over = _wait(client, count + 1) - 1
    return took, submitted_s, time.perf_counter() - began, over


def _job(folder: Path) -> dict[str, Any]:
    return {
        "name": "short", "command": ["true"], "work": 1, "devices": 1, "profile": "never",
        "environment": {"working_dir": str(folder)},
    }  # fmt: skip


def _wait(client: Client, count: int) -> int:
    """How many jobs have finished, once all have or the time is up."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        active = client.overview(jobs=0, events=0)
        done = active.finished if hasattr(active, "finished") else _finished(client)
        if done >= count or time.monotonic() > deadline:
            return done
        time.sleep(0.5)


def _finished(client: Client) -> int:
    found, cursor = 0, None
    while True:
        page = client.jobs(states=["finished"], limit=_PAGE, cursor=cursor)
        found, cursor = found + len(page.jobs), page.next
        if cursor is None:
            return found


def _print_table(took: list[float], submitted_s: float, all_s: float, over: int, count: int, slots: int) -> None:
    ordered = sorted(took)
    rows = [
        ("jobs", f"{count} x true on {slots} slots, {psutil.cpu_count()} cores, load {psutil.getloadavg()[0]:.1f}"),
        ("finished", f"{over} in {all_s:.1f} s: {over / all_s:.1f} a second"),
        ("submissions", f"{count / submitted_s:.1f} a second, one client"),
        ("submission p50", f"{1000 * statistics.median(ordered):.0f} ms"),
        ("submission p99", f"{1000 * ordered[int(0.99 * (len(ordered) - 1))]:.0f} ms"),
    ]
    for name, value in rows:
        sys.stdout.write(f"{name:<16}{value}\n")


def _end(data: Path) -> None:
    address = DataDir(data).address()
    if address is not None and psutil.pid_exists(address.pid):
        server = psutil.Process(address.pid)
        server.terminate()
        server.wait(30)


if __name__ == "__main__":
    main()
