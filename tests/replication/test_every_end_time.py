"""Every job starts and ends in the second in which it does in the public simulator of commit 3f79f6b (January 2023).

The file beside this test holds what that commit of github.com/pkusys/ElasticFlow writes to ``job.csv``, unmodified but
for its remote-procedure calls and its solver, which a simulation does not use: the start and the end of every job, and
nothing for jobs that are declined. It is made once per trace and policy by ``scheduler.py --simulation=True`` with the
cluster, slot and tables below. A later version of it (e97534a, after "fix end time" of 7435de3) gives other times.
"""

import csv
import gzip
from pathlib import Path

import pytest

from penstock.simulate.replicas import REPLICAS
from penstock.simulate.replicas.elasticflow import run
from tests.replication.conftest import LoadTrace
from tests.replication.test_public_simulator import SETTINGS

Times = dict[int, tuple[float | None, float | None]]


def _public() -> dict[tuple[str, str], Times]:
    found: dict[tuple[str, str], Times] = {}
    with gzip.open(Path(__file__).with_name("public_simulator_3f79f6b.csv.gz"), "rt") as file:
        for row in csv.DictReader(file):
            times = found.setdefault((row["replica"], row["trace"]), {})
            times[int(row["job"])] = (_time(row["started_at"]), _time(row["ended_at"]))
    return found


def _time(text: str) -> float | None:
    return float(text) if text else None


PUBLIC = _public()


def test_every_replica_and_trace_is_there() -> None:
    traces = {"195job": 195, "elasticVpollux_e": 195, "cluster10": 260}
    everywhere = set(REPLICAS) - {"edf-admission-artifact"}
    expected = {(name, trace) for name in everywhere for trace in traces} | {("edf-admission-artifact", "195job")}
    assert set(PUBLIC) == expected
    assert all(len(times) == traces[trace] for (_, trace), times in PUBLIC.items())


LONG = {("elasticflow-artifact", "195job")}


@pytest.mark.parametrize(
    ("replica", "trace"),
    [pytest.param(*each, marks=pytest.mark.long if each in LONG else ()) for each in sorted(PUBLIC)],
)
def test_every_job_starts_and_ends_as_in_the_public_simulator(load_trace: LoadTrace, replica: str, trace: str) -> None:
    tables, nodes, devices, slot = SETTINGS[trace]
    jobs = load_trace(f"traces/{trace}.csv.gz", tables)
    outcomes = run(replica, jobs, nodes, devices, slot)
    ours = {job.index: (each.started_at, each.ended_at) for job, each in zip(jobs, outcomes, strict=True)}
    assert ours == PUBLIC[replica, trace]
