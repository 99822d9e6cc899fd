"""Runs on the local backend with made-up devices, and what is left of them."""

import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from penstock.backends.testing import kinds, output, status, until, wait_for, wait_for_end, wait_for_output
from penstock.backends.testing.processes import CAREFUL, SLEEPER
from penstock.core import Launch, ReportKind, Worker

__all__ = ["CAREFUL", "SLEEPER", "kinds", "output", "status", "until", "wait_for", "wait_for_end", "wait_for_output"]

NODE = "local"
ENDINGS = (ReportKind.FINISHED, ReportKind.FAILED, ReportKind.SUSPENDED)


def python(code: str, *args: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code, *args)


def workers(count: int, first: int = 0) -> tuple[Worker, ...]:
    return tuple(Worker(id=f"w{first + i}", rank=i, node=NODE, slot=first + i) for i in range(count))


def make_launch(command: Sequence[str], count: int = 1, run_id: str = "run-1", **fields: object) -> Launch:
    values = {"grace_s": 5.0, "working_dir": "/", **fields}
    return Launch(run_id=run_id, job_id="job-1", command=tuple(command), workers=workers(count), **values)  # type: ignore[arg-type]


def processes_of(root: Path) -> list[psutil.Process]:
    """Everything alive whose environment says that it belongs to a run below ``root``."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("PENSTOCK_RUN_DIR", "").startswith(str(root)) and process.status() != "zombie":
                found.append(process)
        except psutil.Error:
            continue
    return found
