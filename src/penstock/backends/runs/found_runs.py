"""Runs as their directories tell of them, for a platform that has lost its memory.

A run that was heard out leaves its output alone; one that was not also says what was started and what it reported.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.backends.agent.report_journal import ReportJournalReader
from penstock.backends.runs.rundir import RunDir
from penstock.core import Launch, Report


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRun:
    """One directory of a run; ``launch`` is what was started there, if that is still known."""

    run_id: str
    changed_at: float
    launch: Launch | None = None
    reports: tuple[Report, ...] = ()

    @property
    def job_id(self) -> str:
        return self.run_id.rpartition(".")[0]

    @property
    def stint(self) -> int:
        return int(self.run_id.rpartition(".")[2])


def found_runs(state_dir: Path) -> Iterator[FoundRun]:
    """Every directory under ``runs`` that is named like a run, in order of their names."""
    for path in sorted((state_dir / "runs").glob("*.*")):
        if path.is_dir() and path.name.rpartition(".")[2].isdigit():
            yield _found(RunDir(path))


def _found(run_dir: RunDir) -> FoundRun:
    reports = ReportJournalReader(run_dir.journal, run_dir.run_id).after(0) if run_dir.journal.exists() else ()
    return FoundRun(
        run_id=run_dir.run_id, changed_at=run_dir.path.stat().st_mtime, launch=run_dir.read_launch(), reports=reports
    )
