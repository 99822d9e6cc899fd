"""Waiting for things to happen, with a deadline and without guessing how long they take."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import psutil

from penstock.backends import Backend
from penstock.core import InputError, Launch, Report, ReportKind, RunStatus, Worker

T = TypeVar("T")
NODE = "local"
ENDINGS = (ReportKind.FINISHED, ReportKind.FAILED, ReportKind.SUSPENDED)


def until(probe: Callable[[], T], what: str, timeout_s: float = 90.0) -> T:
    """The first truthy answer of ``probe``."""
    deadline = time.monotonic() + timeout_s
    while not (found := probe()):
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s for {what}"
        time.sleep(0.01)
    return found


def wait_for(backend: Backend, run_id: str, kind: ReportKind, count: int = 1, **fields: object) -> Report:
    """The ``count``-th report of a kind with the given fields."""

    def probe() -> list[Report]:
        told = [r for r in backend.reports(run_id, 0) if r.kind is kind]
        matching = [r for r in told if all(getattr(r, name) == value for name, value in fields.items())]
        return matching if len(matching) >= count else []

    told = lambda: [(r.kind.value, r.worker, r.code, r.tail[-3:]) for r in backend.reports(run_id, 0)]  # noqa: E731
    try:
        return until(probe, f"{kind} {fields} of {run_id}")[count - 1]
    except AssertionError as error:
        raise AssertionError(f"{error}; it told {told()}") from None


def wait_for_end(backend: Backend, run_id: str) -> Report:
    """The last report of a run whose agent has gone."""
    until(lambda: not status(backend, run_id).alive, f"the end of {run_id}")
    last = backend.reports(run_id, 0)[-1]
    assert last.kind in ENDINGS, last
    return last


def wait_for_output(backend: Backend, run_id: str, text: str, worker: str | None = None) -> str:
    def probe() -> str:
        try:
            found = output(backend, run_id, worker)
        except InputError:
            return ""  # the worker has no output yet
        return found if text in found else ""

    return until(probe, f"{text!r} in the output of {run_id} {worker or ''}")


def output(backend: Backend, run_id: str, worker: str | None = None) -> str:
    return backend.logs(run_id, worker, 0, 2**24)[0].decode()


def status(backend: Backend, run_id: str) -> RunStatus:
    return next(one for one in backend.runs() if one.run_id == run_id)


def kinds(reports: Sequence[Report]) -> list[str]:
    return [report.kind.value for report in reports]


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
