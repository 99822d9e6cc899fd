"""Why a run failed, found out after its failure is recorded and before it is decided what follows.

The output of all its workers, how each of them ended, and what its backend and the platform know of it are collected
here, outside of the loop; they are read by a process of its own. Of a very long log the beginning and the end are read:
causes of failures stand there. A failure whose diagnosis cannot be made has none.
"""

import logging
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.backends import Backend
from penstock.control.loop.memory_advice import memory_advice
from penstock.control.loop.report_reader import ASKED
from penstock.control.state.records import JobRecord
from penstock.core import Diagnosis, FailureReason, Report, ReportKind, Usage

if TYPE_CHECKING:
    from penstock.diagnose import Examination, RunFacts

_log = logging.getLogger(__name__)
_HEAD_BYTES, _TAIL_BYTES = 2 << 20, 14 << 20
_PIECE = 1 << 20
_MOST_SEEKS = 64
_HAPPENED = {
    FailureReason.HANG: "the run gave no sign of life",
    FailureReason.LOST: "its processes were gone when somebody looked",
    FailureReason.VANISHED: "nothing was left of the run",
}


def _examined_apart(given: "Examination") -> Diagnosis:
    from penstock.diagnose import examined_apart

    return examined_apart(given)


@dataclass(frozen=True)
class RunDiagnoser:
    """Asks the doctor about failed runs; ``data_dir`` may have signatures of its own.

    ``on_this_machine``: runs are where the server is, so that what its kernel said meanwhile is about them.
    """

    backend: Backend
    data_dir: Path | None = None
    on_this_machine: bool = False
    examine: Callable[["Examination"], Diagnosis] = _examined_apart

    def diagnosis(self, report: Report, record: JobRecord | None, spent: Usage | None = None) -> Diagnosis | None:
        """What a report of a failure means; none where nothing can be found out."""
        try:
            return self._diagnosis(report, record, self._spent(report.run_id) if spent is None else spent)
        except Exception:
            _log.exception("run %s: no diagnosis of its failure", report.run_id)
            return None

    def _diagnosis(self, report: Report, record: JobRecord | None, spent: Usage) -> Diagnosis:
        from penstock.diagnose import Examination

        nodes = {} if record is None else _nodes(record)
        facts = self._facts(report, nodes, spent)
        found = self.examine(
            Examination(
                log=self._output(report), facts=facts, data_dir=None if self.data_dir is None else str(self.data_dir),
                kernel_since=record.granted_at if record is not None and self.on_this_machine else None,
                kernel_kills=any(end.signalled == signal.SIGKILL for end in facts.ends),
            )
        )  # fmt: skip
        placed = _placed(found, nodes)
        advice = memory_advice(placed, record, spent)
        return replace(placed, fix=f"{placed.fix}. {advice}") if advice else placed

    def _spent(self, run_id: str) -> Usage:
        try:
            return self.backend.usage(run_id)
        except Exception as error:
            _log.debug("no usage of run %s: %s", run_id, error)
            return Usage()

    def _output(self, report: Report) -> bytes:
        """The beginning and the end of what its workers said, or the last words it was reported with."""
        last = "\n".join(report.tail).encode("utf-8", "replace")
        try:
            return self._ends_of(report.run_id) or last
        except Exception as error:
            _log.debug("no output of run %s: %s", report.run_id, error)
            return last

    def _ends_of(self, run_id: str) -> bytes:
        head, offset = self._read(run_id, 0, _HEAD_BYTES)
        tail, size = self._read(run_id, offset, _TAIL_BYTES)
        return head + (self._end(run_id, size) if len(tail) >= _TAIL_BYTES else tail)

    def _end(self, run_id: str, known: int) -> bytes:
        """The last bytes of an output that is longer than ``known``; its length is found by doubling."""
        low, high = known, known * 2
        for _ in range(_MOST_SEEKS):
            if not self.backend.logs(run_id, None, high, 1)[0]:
                break
            low, high = high, high * 2
        while high - low > _PIECE:
            middle = (low + high) // 2
            low, high = (middle, high) if self.backend.logs(run_id, None, middle, 1)[0] else (low, middle)
        return self._read(run_id, max(known, high - _TAIL_BYTES), _TAIL_BYTES)[0]

    def _read(self, run_id: str, offset: int, most: int) -> tuple[bytes, int]:
        pieces, left = list[bytes](), most
        while left > 0:
            data, offset = self.backend.logs(run_id, None, offset, min(_PIECE, left))
            if not data:
                break
            pieces.append(data)
            left -= len(data)
        return b"".join(pieces), offset

    def _facts(self, report: Report, nodes: Mapping[int, str], spent: Usage) -> "RunFacts":
        from penstock.diagnose import RunFacts, WorkerEnd

        ends = [
            WorkerEnd(
                rank=one.rank,
                node="" if one.rank is None else nodes.get(one.rank, ""),
                code=one.code,
                signal=one.signal,
            )
            for one in self._bad_exits(report.run_id)
        ]
        reason = report.reason or ""
        happened = _HAPPENED.get(FailureReason(reason), "") if reason in tuple(FailureReason) else reason
        return RunFacts(
            ends=tuple(ends) or (WorkerEnd(code=report.code, signal=report.signal),),
            memory_peak_bytes=spent.memory_peak_bytes, memory_limit_bytes=spent.memory_limit_bytes,
            events=(happened,) if happened else (),
        )  # fmt: skip

    def _bad_exits(self, run_id: str) -> list[Report]:
        """Workers that ended badly by themselves: one that was told to go, because of another, says nothing."""
        try:
            told = self.backend.reports(run_id, 0)
        except Exception as error:
            _log.debug("no reports of run %s: %s", run_id, error)
            return []
        exits = (one for one in told if one.kind is ReportKind.WORKER_EXITED and one.reason != ASKED)
        return [one for one in exits if one.code or one.signal]


def _nodes(record: JobRecord) -> dict[int, str]:
    """The node of each rank; workers that are already taken for lost were on the places that nobody has."""
    nodes = {worker.rank: worker.node for worker in record.workers}
    held = {worker.place for worker in record.workers}
    left = (place for place in record.places if place not in held)
    missing = (rank for rank in range(len(record.places)) if rank not in nodes)
    return nodes | {rank: place.node for rank, place in zip(missing, left, strict=False)}


def _placed(found: Diagnosis, nodes: Mapping[int, str]) -> Diagnosis:
    """The node of a rank is the one that the run had it on, whatever hosts call themselves in logs."""
    only = next(iter(set(nodes.values())), "") if len(set(nodes.values())) == 1 else ""
    node = nodes.get(found.culprit.rank, "") if found.culprit.rank is not None else ""
    known = found.culprit.node if found.culprit.node in nodes.values() else ""
    return replace(found, culprit=replace(found.culprit, node=node or known or only))
