"""What every place that runs jobs can do, and how its values travel.

A backend starts processes and tells what became of them. It decides nothing: whether a failed run is tried again, and
on which devices, is the server's business. Whatever it tells is durable and numbered, so a server that was away reads
on where it stopped.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Protocol

from penstock.core import DeviceUsage, Launch, Node, PenstockError, Report, ReportKind, RunStatus, Usage, Worker

_REPORT_FIELDS = {field.name: field.default for field in fields(Report)}
_LAUNCH_FIELDS = {field.name for field in fields(Launch)}
_USAGE_FIELDS = {field.name for field in fields(Usage)}


class BackendError(PenstockError):
    """The place where jobs run did not do what it was asked; says which run, what happened and what to look at."""


class Backend(Protocol):
    """Where runs live. Every command is idempotent: a server that is not sure whether it was heard says it again."""

    @property
    def name(self) -> str:
        """How people call this backend: "local", "kubernetes"."""
        ...

    def nodes(self) -> tuple[Node, ...]:
        """What there is to run on, in the order of the cluster's device indices."""
        ...

    def launch(self, launch: Launch) -> None:
        """Start a run. The same run again changes nothing; a later attempt or generation of an ended run starts it."""
        ...

    def resize(self, run_id: str, workers: tuple[Worker, ...], generation: int) -> None:
        """Ask for the next world. Returns when the request is accepted; a ``resized`` report tells when it is done.

        Devices that another run has not left yet are waited for, and what this run leaves it leaves meanwhile: runs
        that swap devices may be asked in any order, all at once.
        """
        ...

    def suspend(self, run_id: str) -> None:
        """Ask a run to save its state and leave its devices; a ``suspended`` report tells when it has."""
        ...

    def stop(self, run_id: str, grace_s: float) -> None:
        """Ask a run to end, and end it after ``grace_s``; a ``failed`` report with reason "stopped" tells when."""
        ...

    def forget(self, run_id: str) -> None:
        """Drop what is kept about an ended run, except its logs and checkpoints."""
        ...

    def runs(self) -> tuple[RunStatus, ...]:
        """Every run this backend knows, also those another server started."""
        ...

    def reports(self, run_id: str, after_seq: int) -> tuple[Report, ...]:
        """What the run told after ``after_seq``, in order and without gaps."""
        ...

    def logs(self, run_id: str, worker: str | None, offset: int, limit: int) -> tuple[bytes, int]:
        """Up to ``limit`` bytes of output from ``offset`` on, and the offset to go on from."""
        ...

    def usage(self, run_id: str) -> Usage:
        """What the run uses right now and has used so far; of one that has ended only its totals are left."""
        ...


def launch_to_json(launch: Launch) -> str:
    """A launch as one line of JSON."""
    return json.dumps(asdict(launch))


def launch_from_json(text: str) -> Launch:
    """The inverse of :func:`launch_to_json`; keys of a newer version are ignored."""
    values = {key: value for key, value in json.loads(text).items() if key in _LAUNCH_FIELDS}
    values["command"] = tuple(values["command"])
    values["env"] = _pairs(values.get("env", ()))
    values["workers"] = tuple(worker_from_dict(worker) for worker in values["workers"])
    return Launch(**values)


def worker_from_dict(values: Mapping[str, Any]) -> Worker:
    """One worker of a launch or of a resize command."""
    return Worker(
        id=str(values["id"]), rank=int(values["rank"]), device=int(values["device"]),
        device_env=_pairs(values.get("device_env", ())),
    )  # fmt: skip


def report_to_json(report: Report) -> str:
    """A report as one line of JSON: ``type`` first to the eye, and only what was said."""
    said = {
        key: value for key, value in asdict(report).items()
        if key not in ("run_id", "seq", "at", "kind") and value != _REPORT_FIELDS[key]
    }  # fmt: skip
    return json.dumps({"seq": report.seq, "at": report.at, "type": report.kind.value, **said})


def report_from_json(run_id: str, text: str) -> Report:
    """The inverse of :func:`report_to_json`; keys of a newer version are ignored."""
    values = json.loads(text)
    said = {key: value for key, value in values.items() if key in _REPORT_FIELDS}
    said["tail"] = tuple(said.get("tail", ()))
    return Report(**{**said, "run_id": run_id, "kind": ReportKind(values["type"])})


def usage_from_dict(values: Mapping[str, Any]) -> Usage:
    """The inverse of ``dataclasses.asdict``; keys of a newer version are ignored."""
    known = {key: value for key, value in values.items() if key in _USAGE_FIELDS}
    return Usage(**{**known, "devices": tuple(DeviceUsage(**device) for device in values.get("devices", ()))})


def _pairs(values: Any) -> tuple[tuple[str, str], ...]:
    return tuple((str(name), str(value)) for name, value in values)
