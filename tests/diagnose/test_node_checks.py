"""Checks of one node: each finds what it is for, and says what to do."""

import json
import resource
import shutil
import socket
from collections import namedtuple
from contextlib import closing
from pathlib import Path

import pytest

from penstock.core import InputError
from penstock.diagnose import Check, NodeReport, Status
from penstock.diagnose.preflight import surroundings
from penstock.diagnose.preflight.expectations import NOTHING_KNOWN, Range, expectations
from penstock.diagnose.preflight.report import found_in, marked
from penstock.diagnose.preflight.speeds import disk_speed, judged

Usage = namedtuple("Usage", "free")


def told(value: float) -> str:
    return f"{value:g}"


@pytest.mark.parametrize(
    ("value", "status"), [(10.0, Status.PASS), (7.0, Status.PASS), (6.9, Status.WARN), (3.9, Status.FAIL)]
)
def test_a_speed_is_held_against_what_is_known(value: float, status: Status) -> None:
    check = judged("memory", value, Range(good=7.0, bad=4.0, source="data sheet of x"), told)
    assert (check.status, check.expected) == (status, "at least 7 (data sheet of x)")
    assert bool(check.next) is (status is not Status.PASS)


def test_a_speed_without_an_expectation_passes_nothing() -> None:
    check = judged("memory", 5.0, None, told)
    assert (check.status, check.expected) == (Status.SKIP, "no expectation known")


def test_expectations_come_from_the_data_sheet_and_not_from_a_nominal_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PENSTOCK_DATA_DIR", str(tmp_path))
    h200 = expectations("NVIDIA H200")
    assert h200.flops["bf16"].bad < h200.flops["bf16"].good < 989.4e12
    assert h200.bytes_s is not None
    assert expectations("cpu", is_cpu=True) == NOTHING_KNOWN
    assert expectations("Some Accelerator 9000") == NOTHING_KNOWN


@pytest.mark.parametrize(("free", "status"), [(2 << 30, Status.PASS), (1 << 28, Status.WARN), (1 << 20, Status.FAIL)])
def test_shared_memory(free: int, status: Status, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free))
    assert surroundings._shared_memory(tmp_path).status is status
    assert surroundings._shared_memory(tmp_path / "absent").status is Status.FAIL


@pytest.mark.parametrize(
    ("soft", "infiniband", "status"),
    [(resource.RLIM_INFINITY, True, Status.PASS), (1 << 30, True, Status.PASS), (1 << 16, False, Status.WARN),
     (1 << 16, True, Status.FAIL)],
)  # fmt: skip
def test_locked_memory_matters_where_there_is_infiniband(
    soft: int, infiniband: bool, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))
    monkeypatch.setattr(Path, "glob", lambda *_: iter([Path("mlx5_0")] if infiniband else []))
    assert surroundings._memlock().status is status


def test_a_port_that_somebody_listens_on() -> None:
    with closing(socket.socket()) as other:
        other.bind(("", 0))
        other.listen()
        taken = surroundings._port(other.getsockname()[1])
    assert (taken.status, "MASTER_PORT" in taken.next) == (Status.WARN, True)


def test_a_host_that_does_not_know_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "no-such-host.invalid")
    check = surroundings._own_name()
    assert (check.status, "no-such-host.invalid" in check.figure) == (Status.FAIL, True)


def test_every_surrounding_is_answered_here() -> None:
    names = [check.name for check in surroundings.surroundings((29500, 29501))]
    assert names == [
        "/dev/shm", "memlock", "open files", "interfaces", "own name", "port 29500", "port 29501", "clock",
    ]  # fmt: skip


def test_a_disk_is_measured_and_read_back(tmp_path: Path) -> None:
    rate, contents = disk_speed(tmp_path, None, size=8 << 20)
    assert (rate.status, contents.status) == (Status.SKIP, Status.PASS)
    slow, _ = disk_speed(tmp_path, 1e15, size=8 << 20)
    assert (slow.status, "what was asked for" in slow.expected) == (Status.FAIL, True)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_cannot_be_written_fails(tmp_path: Path) -> None:
    (check,) = disk_speed(tmp_path / "absent", None)
    assert (check.status, "No such file" in check.figure) == (Status.FAIL, True)


def test_a_report_is_read_back_from_output() -> None:
    bad = Check(name="clock", status=Status.FAIL, figure="9 s off", expected="1 s", next="Set it")
    report = NodeReport(node="a", seconds=1.5, clock=2.0, facts={"torch": "2.11"}, checks=(bad,))
    assert found_in(f"banner\n[0] {marked(report)}\ntrailer\n") == report
    assert NodeReport.from_data(json.loads(json.dumps(report.to_data()))) == report
    assert report.reason == "clock: 9 s off, expected 1 s. Set it"
    assert found_in("nothing here") is None
    assert found_in('penstock-preflight: {"torn') is None


@pytest.mark.parametrize(
    "data", [{}, {"node": "a"}, {"node": "a", "seconds": 1, "clock": 1, "facts": {}, "checks": [1]}]
)
def test_what_is_not_a_report_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(InputError, match="not the report of a node"):
        NodeReport.from_data(data)
