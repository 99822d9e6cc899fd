"""A backend that runs nothing: what a server costs by itself, without the work it looks after.

Runs are born when they are launched and live until they are told to go. The output of every run is one file in the data
directory, ``OUTPUT``, so that whoever measures can write a line that every follower is waiting for.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from penstock.core import (
    DeviceSlot,
    Launch,
    MetricSeries,
    Node,
    Recipe,
    Report,
    ReportKind,
    RunState,
    RunStatus,
    RunWatch,
    Usage,
    Worker,
)

NODES = 4
DEVICES = 8
OUTPUT = "output.log"


class NullBackend:
    """Implements :class:`penstock.backends.Backend` without a single process."""

    name = "null"
    promises = True

    def __init__(self, data_dir: Path) -> None:
        self._output = data_dir / OUTPUT
        self._reports: dict[str, list[Report]] = {}
        self._ended: set[str] = set()

    def nodes(self) -> tuple[Node, ...]:
        return tuple(Node(name=f"node-{number}", device_count=DEVICES) for number in range(NODES))

    def unusable(self) -> Mapping[DeviceSlot, str]:
        return {}

    def prepare(self, recipe: Recipe, tell: Callable[[str], None]) -> Recipe:  # noqa: ARG002
        return recipe

    def launch(self, launch: Launch) -> None:
        if launch.run_id not in self._reports:
            self._reports[launch.run_id] = []
            self._tell(launch.run_id, ReportKind.LAUNCHED)

    def resize(self, run_id: str, workers: tuple[Worker, ...], generation: int) -> None:
        self._tell(run_id, ReportKind.RESIZED, generation=generation, width=len(workers))

    def suspend(self, run_id: str) -> None:
        self._end(run_id, ReportKind.SUSPENDED)

    def stop(self, run_id: str, grace_s: float) -> None:  # noqa: ARG002
        self._end(run_id, ReportKind.FAILED, reason="stopped")

    def forget(self, run_id: str) -> None:
        self._reports.pop(run_id, None)
        self._ended.discard(run_id)

    def runs(self) -> tuple[RunStatus, ...]:
        return tuple(
            RunStatus(
                run_id=run_id,
                state=RunState.ENDED if run_id in self._ended else RunState.RUNNING,
                last_seq=len(reports),
            )
            for run_id, reports in self._reports.items()
        )

    def reports(self, run_id: str, after_seq: int) -> tuple[Report, ...]:
        return tuple(self._reports.get(run_id, ())[after_seq:])

    def logs(self, run_id: str, worker: str | None, offset: int, limit: int) -> tuple[bytes, int]:  # noqa: ARG002
        if not self._output.exists():
            return b"", offset
        with self._output.open("rb") as file:
            file.seek(offset)
            data = file.read(limit)
        return data, offset + len(data)

    def log_offset(self, run_id: str, worker: str | None, since: float) -> int:  # noqa: ARG002
        return 0

    def metrics(self, run_id: str) -> tuple[MetricSeries, ...]:  # noqa: ARG002
        return ()

    def usage_curves(self, run_id: str) -> tuple[MetricSeries, ...]:  # noqa: ARG002
        return ()

    def watched(self, run_id: str) -> RunWatch | None:  # noqa: ARG002
        return None

    def usage(self, run_id: str) -> Usage:  # noqa: ARG002
        return Usage()

    def _end(self, run_id: str, kind: ReportKind, reason: str | None = None) -> None:
        if run_id not in self._ended:
            self._ended.add(run_id)
            self._tell(run_id, kind, reason=reason)

    def _tell(
        self,
        run_id: str,
        kind: ReportKind,
        *,
        generation: int | None = None,
        width: int | None = None,
        reason: str | None = None,
    ) -> None:
        told = self._reports[run_id]
        told.append(
            Report(
                run_id=run_id, seq=len(told) + 1, at=time.time(), kind=kind, generation=generation, width=width,
                reason=reason,
            )
        )  # fmt: skip
