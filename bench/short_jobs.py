"""How many trivial jobs a second one machine gets through, and how long a submission takes beside them.

``python -m bench.short_jobs [JOBS] [SLOTS]`` starts a real server on this machine with SLOTS made-up slots, submits
JOBS jobs that run ``true`` as an array, and beside them one job after the other in a request of its own, EVERY_S apart.
It prints a table, and ends after LIMIT_S at the latest: then it says how far it came.
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
EVERY_S = 0.2
_BETWEEN_LOOKS = 5
_PAGE = 1000


def main() -> None:
    count, slots = (int(given) for given in (sys.argv[1:] + [str(JOBS), str(SLOTS)][len(sys.argv) - 1 :])[:2])
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        data = Path(folder) / "data"
        client = ensure_server(data, options=["--slots", str(slots)], within_s=60.0)
        try:
            used_s = _cpu_s(data)
            figures = _measured(client, Path(folder), count)
            _print_table(*figures, count, slots, _cpu_s(data) - used_s)
        finally:
            client.close()
            _end(data)


def _measured(client: Client, folder: Path, count: int) -> tuple[list[float], float, float, int]:
    """Seconds of each single submission, of the array's, until all jobs were over, and how many then were."""
    client.submit(_job(folder))
    while not _finished(client):
        time.sleep(0.1)
    began = time.perf_counter()
    client.submit_array(_job(folder), f"1..{count}")
    array_s, took = time.perf_counter() - began, list[float]()
    while (over := _finished(client) - 1) < count + len(took) and time.perf_counter() - began < LIMIT_S:
        if over < count:
            took += [_submission_s(client, folder) for _ in range(_BETWEEN_LOOKS)]
        time.sleep(EVERY_S)
    return took, array_s, time.perf_counter() - began, over


def _submission_s(client: Client, folder: Path) -> float:
    time.sleep(EVERY_S)
    began = time.perf_counter()
    client.submit(_job(folder))
    return time.perf_counter() - began


def _job(folder: Path) -> dict[str, Any]:
    return {
        "name": "short", "command": ["true"], "work": 1, "devices": 1, "profile": "never",
        "environment": {"working_dir": str(folder)},
    }  # fmt: skip


def _finished(client: Client) -> int:
    found, cursor = 0, None
    while True:
        page = client.jobs(states=["finished"], limit=_PAGE, cursor=cursor)
        found, cursor = found + len(page.jobs), page.next
        if cursor is None:
            return found


def _cpu_s(data: Path) -> float:
    """Processor seconds that the server itself has used."""
    address = DataDir(data).address()
    assert address is not None
    used = psutil.Process(address.pid).cpu_times()
    return float(used.user + used.system)


def _print_table(
    took: list[float], array_s: float, all_s: float, over: int, count: int, slots: int, server_s: float
) -> None:
    ordered = sorted(took)
    rows = [
        ("jobs", f"{count} x true in an array, {len(took)} one by one, on {slots} slots, {psutil.cpu_count()} cores"),
        ("machine", f"load {psutil.getloadavg()[0]:.1f}"),
        ("finished", f"{over} in {all_s:.1f} s: {over / all_s:.1f} a second"),
        ("array", f"{array_s:.2f} s for the one request"),
        ("submission p50", f"{1000 * statistics.median(ordered):.0f} ms"),
        ("submission p99", f"{1000 * ordered[int(0.99 * (len(ordered) - 1))]:.0f} ms"),
        ("server", f"{1000 * server_s / max(over, 1):.0f} ms of processor time for each job"),
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
