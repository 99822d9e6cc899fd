"""What years of use cost: a server whose database holds many finished jobs, against the same server before.

``python -m bench.growth [JOBS ...] [--dir DIR]``   100,000 by default; each count gets a database of its own
``python -m bench.growth JOBS --keep DIR``          the database is in DIR and stays there; in DIR-before beside it one
                                                    of the schema before, of which a copy is upgraded

The jobs are written by the store's own code (log, lists, grants, archive, outcomes); beyond 20,000 they are copies of
those with other ids and times, made in the database. They are spread over a year of which the last week is measured;
every 20th failed once and was tried again, every third had a deadline. Then a real server starts
on the database, with a backend that runs nothing (:mod:`bench.null_backend`): its start, its memory, its idle load and
its answers are measured, and the start after an upgrade from the schema before.
"""

import argparse
import json
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
from rich.console import Console
from rich.table import Table

from bench.live import running
from bench.null_backend import NullBackend
from penstock.client import Client, DataDir
from penstock.control import Configured, Journal, Store, Submitted
from penstock.control.state import snapshots
from penstock.control.state.entries import Entry, Launched, RunFailed, RunFinished
from penstock.control.state.records import JobRecord
from penstock.control.state.state_data import StillState, record_to_data
from penstock.control.state.store import GrantRow, JobRow, Line
from penstock.control.state.store.database import open_engine
from penstock.core import BestEffort, Curve, Deadline, Job, Quote, Recipe, Verdict, Work, encode, plain
from penstock.scheduler import Entry as Note
from penstock.wire import JobPhase

DATABASE = "penstock.db"
YEAR_S = 365 * 86400.0
AT_ONCE = 500
WRITTEN = 20_000
PATIENCE_S = 600.0
SAMPLES = 100
IDLE_S = 20.0
LIFE_S = 600.0
TENANTS = ("blue", "red", "green", "grey")
CURVE = Curve.from_table({1: 1.0, 2: 1.9, 4: 3.5})
FORMER = {
    "memory of the server": "607 MB", "start": "10 s", "start after an upgrade": "70 s", "report of 7 days, p50": "3 s",
    "list of jobs (ps), p99": "(p50 16-21 ms)", "overview, p99": "(p50 56-62 ms)", "processor while idle": "0.3 %",
    "database": "96 MB",
}  # fmt: skip
"""Measured on an earlier version with 20,008 finished jobs, all within the last week."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedJob:
    """One job of the generated past."""

    number: int
    at: float

    @property
    def id(self) -> str:
        return f"j-{self.number:08d}"

    @property
    def name(self) -> str:
        return f"train-{self.number % 500}"

    @property
    def failed_once(self) -> bool:
        return self.number % 20 == 0

    def record(self) -> JobRecord:
        goal = Deadline(self.at + 2 * LIFE_S) if self.number % 3 == 0 else BestEffort()
        job = Job(
            id=self.id, work=Work(LIFE_S), curve=CURVE, tenant=TENANTS[self.number % len(TENANTS)],
            submitted_at=self.at, goal=goal,
        )  # fmt: skip
        recipe = Recipe(
            command=("python", "train.py", "--epochs", "90"), working_dir="/home/ada/resnet", fingerprint="f" * 64
        )
        spec = {"name": "resnet50", "script": "train.py", "arguments": ["--epochs", "90"], "work": "600 steps"}
        submission = Submitted(at=self.at, job=job, name=self.name, recipe=recipe, spec=spec, by="ada")
        record = JobRecord(job.id, self.number, submission, job, JobPhase.FINISHED)
        record.quote = Quote(
            job_id=job.id, verdict=Verdict.PROMISED, finish_at=self.at + LIFE_S, devices=1, reason="it fits",
            device_seconds=LIFE_S,
        )  # fmt: skip
        record.started_at, record.ended_at, record.stint, record.generation = self.at + 5, self.at + LIFE_S, 1, 1
        record.runs, record.failures = [f"{job.id}.1"], int(self.failed_once)
        record.expected_at, record.energy_j = self.at + LIFE_S, 250.0 * LIFE_S
        record.notes = [Note(self.at + offset, text) for offset, text in _STORY]
        return record

    def lines(self, record: JobRecord) -> Iterator[Line]:
        """Decisions are left out: a server would have removed them from the log by now."""
        run = record.runs[0]
        entries: list[Entry] = [record.submission]
        entries.append(Launched(at=self.at + 5, job_id=record.id, run_id=run, expected_at=record.expected_at))
        if self.failed_once:
            failed = RunFailed(
                at=self.at + 50, job_id=record.id, run_id=run, reason="exit", code=1, step=40, retry_at=self.at + 60
            )  # fmt: skip
            entries += [failed, Launched(at=self.at + 60, job_id=record.id, run_id=run)]
        entries.append(RunFinished(at=self.at + LIFE_S, job_id=record.id, run_id=run, energy_j=record.energy_j))
        for entry in entries:
            yield Line(
                at=entry.at, kind=type(entry).__name__, payload=encode(entry), job_id=record.id,
                tenant=record.job.tenant,
            )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A job as the store takes it."""

    row: JobRow
    grant: GrantRow
    record: dict[str, Any]
    lines: list[Line]


class Templates:
    """Jobs that differ in their ids and times only: made once by the platform's own code, and printed often."""

    def __init__(self) -> None:
        self._texts: dict[tuple[bool, bool, int], str] = {}

    def job(self, wanted: FinishedJob) -> Written:
        kind = wanted.failed_once, wanted.number % 3 == 0, wanted.number % len(TENANTS)
        if kind not in self._texts:
            self._texts[kind] = self._text(wanted.number)
        text = self._texts[kind].replace(_ID, wanted.id).replace(_NAME, wanted.name)
        for offset in _OFFSETS:
            text = text.replace(repr(_THEN + offset), repr(wanted.at + offset))
        data = json.loads(text.replace(str(_NUMBER), str(wanted.number)))
        return Written(
            row=JobRow(**data["row"]), grant=GrantRow(**data["grant"]), record=data["record"],
            lines=[Line(**line) for line in data["lines"]],
        )  # fmt: skip

    def _text(self, like: int) -> str:
        """With stand-ins for what differs."""
        stand_in = FinishedJob(number=like, at=_THEN)
        record = stand_in.record()
        lines = [{name: getattr(line, name) for name in _LINE} for line in stand_in.lines(record)]
        whole = {"row": plain(_row(record)), "grant": plain(_grant(record)), "record": record_to_data(record)}
        whole["row"]["number"] = whole["record"]["number"] = _NUMBER
        text = json.dumps({**whole, "lines": lines})
        return text.replace(stand_in.id, _ID).replace(stand_in.name, _NAME)


_ID, _NAME, _NUMBER, _THEN = "{id}", "{name}", 999_999_999_999, 1e15
_OFFSETS = (0.0, 1.0, 5.0, 50.0, 60.0, LIFE_S, 2 * LIFE_S)
_LINE = ("at", "kind", "payload", "job_id", "tenant")
_RECIPE = Recipe(
    command=("python", "train.py", "--epochs", "90"), working_dir="/home/ada/resnet", fingerprint="f" * 64
)  # fmt: skip
_SPEC = {"name": "resnet50", "script": "train.py", "arguments": ["--epochs", "90"], "work": "600 steps"}
_STORY = [
    (0.0, "submitted"), (1.0, "promised: done by then on one device"), (5.0, "started on 1 device"),
    (LIFE_S, "finished"),
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", nargs="*", type=int, default=[100_000])
    parser.add_argument("--dir", type=Path, help="where to put the databases [a temporary directory]")
    parser.add_argument("--keep", type=Path, help="where the database is, or is put and left, if it is only one")
    given = parser.parse_args()
    if given.keep is not None and len(given.jobs) > 1:
        parser.error("--keep takes one count of jobs")
    results = {many: kept(many, given.keep) if given.keep else measure(many, given.dir) for many in given.jobs}
    table = Table("figure", "20,008 before", *(f"{many:,}" for many in results), box=None)
    for name, former in FORMER.items():
        table.add_row(name, former, *(result[name] for result in results.values()))
    Console().print(table)


def measure(many: int, place: Path | None) -> dict[str, str]:
    folder = Path(tempfile.mkdtemp(prefix=f"penstock-growth-{many}-", dir=place))
    try:
        _fill_timed(folder, many)
        figures = asked(folder)
        go_back(folder)
        return figures | upgraded(folder)
    finally:
        shutil.rmtree(folder)


def kept(many: int, folder: Path) -> dict[str, str]:
    """With databases that were made before, or are made now and stay."""
    before = folder.with_name(f"{folder.name}-before")
    if not (folder / DATABASE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        _fill_timed(folder, many)
    if not (before / DATABASE).exists():
        before.mkdir(exist_ok=True)
        shutil.copy(folder / DATABASE, before)
        go_back(before)
    figures = asked(folder)
    with tempfile.TemporaryDirectory(prefix="penstock-growth-", dir=folder.parent) as copy:
        shutil.copy(before / DATABASE, copy)
        return figures | upgraded(Path(copy))


def upgraded(folder: Path) -> dict[str, str]:
    """The first start on a database of the schema before."""
    with timed_start(folder) as (started_s, _, process):
        return {"start after an upgrade": f"{started_s:.1f} s ({processor_s(process):.1f} s of processor)"}


def _fill_timed(folder: Path, many: int) -> None:
    began = time.perf_counter()
    fill(folder, many)
    print(f"{many:,} jobs written in {time.perf_counter() - began:.0f} s", flush=True)


def fill(folder: Path, many: int) -> None:
    """A year of finished jobs, as a server would have left it."""
    now, templates = time.time() - 2 * LIFE_S, Templates()
    began, written = now - YEAR_S, min(many, WRITTEN)
    copies = -(-many // written)
    with closing(Store(f"sqlite:///{folder}/penstock.db")) as store:
        journal = Journal(store, lambda: began)
        journal.record(Configured(at=began, nodes=NullBackend(folder).nodes(), policy="deadline"))
        for first in range(1, written + 1, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, written + 1))
            past = (FinishedJob(number=n, at=round(began + YEAR_S / copies * n / written)) for n in numbers)
            write(store, [templates.job(job) for job in past])
        state = journal.state
    for copy in range(1, copies):
        repeat(folder, copy * written, copy * YEAR_S / copies)
    with closing(Store(f"sqlite:///{folder}/penstock.db")) as store:
        last = store.log.last()
        assert last is not None
        state.submitted, state.at = copies * written, last.at
        snapshots.keep(store, StillState.of(state), last.seq)


def repeat(folder: Path, by: int, later_s: float) -> None:
    """The jobs that were written once more, with later numbers and times. Checksums are left to the server."""
    new_id = f"printf('j-%08d', substr({{id}}, 3) + {by})"
    with closing(sqlite3.connect(folder / "penstock.db")) as database:
        database.execute("PRAGMA synchronous = OFF")
        for table, changes in _REPEATED.items():
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})") if (table, row[1]) != _SEQ]
            made = [changes.get(column, column).format(new=new_id, by=by, later=later_s) for column in columns]
            key = "job_id" if "job_id" in columns else "id"
            values = ", ".join(value.replace("{id}", key) for value in made)
            only = f"{key} <= 'j-{WRITTEN:08d}'"
            database.execute(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {table} WHERE {only}")
        database.execute(
            "UPDATE job_counts SET many = (SELECT count(*) FROM jobs WHERE jobs.state = job_counts.state "
            "AND jobs.tenant = job_counts.tenant)"
        )
        database.commit()


_SEQ = "events", "seq"
_LATER = {name: f"{name} + {{later}}" for name in ("at", "submitted_at", "started_at", "ended_at", "since", "until")}
_RENAMED = {"id": "{new}", "job_id": "{new}", "number": "number + {by}", "run_id": "{new} || '.1'", "checksum": "NULL"}
_REPEATED = {
    "jobs": _LATER | _RENAMED,
    "grants": _LATER | _RENAMED,
    "events": _LATER | _RENAMED | {"payload": "replace(payload, job_id, {new})"},
    "archive": _RENAMED | {"record": "replace(record, job_id, {new})"},
    "outcomes": _LATER | _RENAMED | {name: f"{name} + {{later}}" for name in ("planned_at", "expected_at", "deadline")},
}


def write(store: Store, past: list[Written]) -> None:
    lines = [line for job in past for line in job.lines]
    store.log.append(*sorted(lines, key=lambda line: line.at))
    held = {job.row.id: job.grant for job in past}
    store.jobs.publish([job.row for job in past], held, lines[-1].at, over={job.row.id: job.record for job in past})


def _row(record: JobRecord) -> JobRow:
    return JobRow(
        id=record.id, number=record.number, name=record.submission.name, tenant=record.job.tenant, state="finished",
        spec=record.submission.spec, quote=plain(record.quote), submitted_at=record.submission.at,
        started_at=record.started_at, ended_at=record.ended_at, run_id=record.run_id, devices=[],
        failures=record.failures, reason="", tail=[],
    )  # fmt: skip


def _grant(record: JobRecord) -> GrantRow:
    return GrantRow(
        job_id=record.id, generation=1, run_id=record.run_id, kind="nvidia.com/gpu", devices=[record.number % 32],
        since=record.submission.at + 1, until=record.ended_at,
    )  # fmt: skip


@contextmanager
def timed_start(folder: Path) -> Iterator[tuple[float, Client, psutil.Process]]:
    began = time.perf_counter()
    with running(folder, "bench.live", "serve", str(folder), patience_s=PATIENCE_S) as (client, process):
        yield time.perf_counter() - began, client, process


def asked(folder: Path) -> dict[str, str]:
    """A server on it: how it starts, what it takes, how it answers."""
    with timed_start(folder) as (started_s, client, process):
        busy_s = processor_s(process)
        headers = {"Authorization": f"Bearer {DataDir(folder).owner_token()}"}
        with httpx.Client(base_url=client.url, headers=headers, timeout=120, trust_env=False) as http:
            listing = milliseconds(lambda: http.get("/v1/jobs").raise_for_status())
            overview = milliseconds(lambda: http.get("/v1/overview").raise_for_status())
            computed = processor_s(process)
            report = milliseconds(lambda: http.get("/v1/report", params={"since": "7d"}).raise_for_status(), 5)
            computed = (processor_s(process) - computed) / (len(report) + 1)
        time.sleep(3.0)
        before = processor_s(process)
        time.sleep(IDLE_S)
        busy = (processor_s(process) - before) / IDLE_S
        return {
            "database": f"{(folder / DATABASE).stat().st_size / 1e6:.0f} MB",
            "start": f"{started_s:.1f} s ({busy_s:.1f} s of processor)",
            "memory of the server": f"{process.memory_info().rss / 1e6:.0f} MB",
            "processor while idle": f"{100 * busy:.1f} %", "list of jobs (ps), p99": f"{p99(listing):.0f} ms",
            "overview, p99": f"{p99(overview):.0f} ms",
            "report of 7 days, p50": f"{statistics.median(report) / 1000:.2f} s ({computed:.2f} s of processor)",
        }  # fmt: skip


def processor_s(process: psutil.Process) -> float:
    """What it has used; a busy machine makes everything else look longer."""
    times = process.cpu_times()
    return float(times.user + times.system)


def milliseconds(ask: Callable[[], object], samples: int = SAMPLES) -> list[float]:
    ask()
    took = []
    for _ in range(samples):
        began = time.perf_counter()
        ask()
        took.append(1000 * (time.perf_counter() - began))
    return took


def p99(values: list[float]) -> float:
    return sorted(values)[max(0, round(0.99 * len(values)) - 1)]


def go_back(folder: Path) -> None:
    """The schema of the version before outcomes were kept as columns, without snapshots' help for the log's index."""
    from alembic import command
    from alembic.config import Config

    import penstock.control.state.store.database as database

    engine = open_engine(f"sqlite:///{folder}/penstock.db")
    config = Config()
    config.set_main_option("script_location", str(Path(database.__file__).with_name("migrations")))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "0004")
    engine.dispose()


if __name__ == "__main__":
    main()
