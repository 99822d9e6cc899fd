"""Waiting for what a backend tells, with a deadline and without guessing how long it takes."""

import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, TypeVar

from penstock.backends.base import Backend
from penstock.core import CPU_WORKER, NO_DEVICE, DeviceSlot, InputError, Launch, Report, ReportKind, RunStatus, Worker

T = TypeVar("T")
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
        of_kind = [report for report in backend.reports(run_id, 0) if report.kind is kind]
        found = [report for report in of_kind if all(getattr(report, name) == value for name, value in fields.items())]
        return found if len(found) >= count else []

    try:
        return until(probe, f"{kind} {fields} of {run_id}")[count - 1]
    except AssertionError as error:
        told = [(one.kind.value, one.worker, one.code, one.tail[-3:]) for one in backend.reports(run_id, 0)]
        raise AssertionError(f"{error}; it told {told}") from None


def wait_for_end(backend: Backend, run_id: str) -> Report:
    """The last report of a run of which nothing is left."""
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


def slots_of(backend: Backend) -> list[DeviceSlot]:
    """Every device that can be used, node by node."""
    found = [DeviceSlot(node.name, slot) for node in backend.nodes() for slot in range(node.device_count)]
    return [place for place in found if place not in backend.unusable()]


def workers_on(places: Sequence[DeviceSlot]) -> tuple[Worker, ...]:
    """One worker on each device."""
    return tuple(
        Worker(id=f"w{rank}", rank=rank, node=place.node, slot=place.slot) for rank, place in enumerate(places)
    )


def cpu_worker(backend: Backend, command: Sequence[str]) -> Worker:
    """A worker without a device, on the first node."""
    return Worker(id=CPU_WORKER, rank=0, node=slots_of(backend)[0].node, slot=NO_DEVICE, command=tuple(command))


def make_launch(
    backend: Backend, command: Sequence[str], count: int = 1, run_id: str = "run-1", **fields: Any
) -> Launch:
    """A run of a command on the first ``count`` devices."""
    places = list(islice(slots_of(backend), count))
    assert len(places) == count, f"the backend under test needs at least {count} devices"
    values = {"grace_s": 5.0, "working_dir": "/", "workers": workers_on(places), **fields}
    return Launch(run_id=run_id, job_id=f"job-of-{run_id}", command=tuple(command), **values)
