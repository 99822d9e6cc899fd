"""What a server does when its memory is not what it was: it says so, and goes on only when told how.

A data directory notes how far the log had come. A database that is empty beside directories of runs, or behind what the
directory has seen, is the wrong one, an old one or a lost one: starting as if nothing had been would end every running
job and hide that anything is missing. ``--recover`` takes the newest backup that is whole, and writes down what the
directories of runs tell of jobs that nobody knows any more; ``--accept-loss`` starts with what there is.
"""

import logging
import time
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.engine import make_url

from penstock.backends import FoundRun, found_runs
from penstock.client import DataDir
from penstock.core import Curve, InputError, Job, Node, Recipe, ReportKind, Work
from penstock.serve.config import Config
from penstock.tools import write_atomically

if TYPE_CHECKING:
    from penstock.control import Journal, Recovered, Store

_log = logging.getLogger(__name__)
CURVES = "curves.db"
"""What was learned of speeds; a backup carries it."""
_ENDS = {ReportKind.FINISHED: "finished", ReportKind.FAILED: "failed"}


def require_history(store: "Store", config: Config, data_dir: DataDir) -> None:
    """Refuse a database that does not know what this data directory has seen."""
    last = store.log.last()
    seq, seen = (0 if last is None else last.seq), data_dir.last_entry()
    runs = sum(1 for _ in found_runs(config.job_files)) if seq == 0 and config.backend == "local" else 0
    if seq >= seen and not runs:
        return
    what = f"its log had come to entry {seen}" if seen else f"{runs} directories of runs lie in {config.job_files}"
    if config.recover or config.accept_loss:
        _log.warning("the database ends at entry %d, but %s: going on as told", seq, what)
        return
    raise InputError(
        f"history is missing: the database ends at entry {seq}, but {what}", "the database of this data directory",
        "Restore a backup (penstock restore FILE), or start with --recover to rebuild what the newest backup and the "
        "runs tell, or with --accept-loss to start with what there is",
    )  # fmt: skip


def recover_database(config: Config, data_dir: DataDir) -> None:
    """Put the newest whole backup in the place of a SQLite database that is missing, damaged or behind it."""
    from penstock.control import DamagedError, examined

    path = sqlite_file(config.database_url)
    if path is None:
        return
    try:
        there = examined(path).last_seq if path.exists() else 0
    except DamagedError as error:
        _log.error("%s", error)
        there = -1
    for backup in sorted((data_dir.path / "backups").glob("*.db"), key=lambda file: -file.stat().st_mtime):
        try:
            held = examined(backup).last_seq
        except DamagedError as error:
            _log.warning("%s", error)
            continue
        if held > there:
            restore_into(config, data_dir, backup)
            return
    if there < 0:
        set_aside(path)


def restore_into(config: Config, data_dir: DataDir, backup: Path) -> Path | None:
    """Put a backup where the server looks; returns where the database before it went, if there was a file."""
    from penstock.control import carried_files, examined, restore

    summary = examined(backup)
    path = sqlite_file(config.database_url)
    before = set_aside(path) if path is not None else None
    restore(backup, config.database_url)
    data_dir.note_last_entry(summary.last_seq)
    for name, content in carried_files(backup).items():
        if not (data_dir.path / name).exists():
            write_atomically(data_dir.path / name, content, mode=0o600)
    _log.warning("restored %s: %d entries, %d jobs", backup, summary.entries, summary.jobs)
    return before


def sqlite_file(url: str) -> Path | None:
    """The file of a SQLite database."""
    parsed = make_url(url)
    return Path(str(parsed.database)) if parsed.get_backend_name() == "sqlite" and parsed.database else None


def set_aside(path: Path) -> Path | None:
    """Move a database with its write-ahead log out of the way; returns where it went."""
    if not path.exists():
        return None
    aside = path.with_name(f"{path.name}.{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}.aside")
    for end in ("", "-wal", "-shm"):
        part = path.with_name(path.name + end)
        if part.exists():
            part.replace(aside.with_name(aside.name + end))
    _log.warning("%s was moved to %s", path, aside)
    return aside


def recover_jobs(journal: "Journal", config: Config, nodes: tuple[Node, ...]) -> int:
    """Write down jobs that only their runs know of; returns how many there were."""
    entries = list(_lost_jobs(journal, config.job_files, nodes))
    for entry in entries:
        journal.record(entry)
    journal.publish()
    if entries:
        _log.warning("%d jobs were found by their runs; those that were not over are paused", len(entries))
    return len(entries)


def _lost_jobs(journal: "Journal", job_files: Path, nodes: tuple[Node, ...]) -> "Iterator[Recovered]":
    runs = sorted(found_runs(job_files), key=lambda run: (run.job_id, run.stint))
    for job_id, of_job in groupby(runs, key=lambda run: run.job_id):
        if journal.find(job_id) is None:
            yield _recovered(job_id, list(of_job), nodes, journal.now())


def _recovered(job_id: str, runs: list[FoundRun], nodes: tuple[Node, ...], now: float) -> "Recovered":
    from penstock.control import Recovered, Submitted

    last = runs[-1]
    launch = last.launch
    times = [report.at for run in runs for report in run.reports] or [run.changed_at for run in runs]
    end = next((report for report in reversed(last.reports) if report.kind in _ENDS), None)
    over = "" if launch is not None and end is None else "failed" if end is None else _ENDS[end.kind]
    tenant = launch.tenant if launch is not None and launch.tenant else "default"
    submission = Submitted(
        at=min(now, *times), job=_job(job_id, runs, nodes, tenant), name=job_id, recipe=_recipe(last), spec={},
        by="recovery",
    )  # fmt: skip
    return Recovered(
        at=now, submission=submission, runs=tuple(run.run_id for run in runs), over=over,
        reason="" if end is not None or not over else "its history was lost; only its output is left",
        started_at=min(now, *times), ended_at=min(now, max(times)) if over else None,
    )  # fmt: skip


def _job(job_id: str, runs: Iterable[FoundRun], nodes: tuple[Node, ...], tenant: str) -> Job:
    """What it had to do, as far as it told; how fast it is has to be learned again."""
    totals = [report.total for run in runs for report in run.reports if report.total]
    kinds = {node.kind for node in nodes}
    curve = Curve(tuple(Curve.from_table({1: 1.0}, kind).scalings[0] for kind in sorted(kinds)))
    return Job(id=job_id, work=Work(float(max(totals, default=1))), curve=curve, tenant=tenant)


def _recipe(run: FoundRun) -> Recipe:
    launch = run.launch
    if launch is None:
        return Recipe(command=("true",))
    return Recipe(
        command=launch.command, env=launch.env, working_dir=launch.working_dir, checkpoint_dir=launch.checkpoint_dir,
        grace_s=launch.grace_s, hang_after_s=launch.hang_after_s, learns_hangs=launch.learns_hangs,
        container=launch.container, limits=launch.limits, tenant=launch.tenant,
    )  # fmt: skip
