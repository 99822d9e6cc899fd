"""Nodes are checked before workers start there: with real checks of this machine, and of machines that it plays."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import penstock
from penstock.backends import Backend, LocalBackend, fake_devices
from penstock.backends.testing.watching import kinds, make_launch, output, until, wait_for, wait_for_end, workers_on
from penstock.core import Container, DeviceSlot, Preflight, PreflightLevel, Report, ReportKind
from tests.backends.fake_tools import calls, fake_docker
from tests.backends.spanning import SpanningBackend
from tests.tools import needs

QUICK = Preflight(level=PreflightLevel.QUICK)
TOO_FEW_FILES = ["prlimit", "--nofile=1024:1024"]
PACKAGE = Path(penstock.__file__).parents[1]
HELLO = "print('hello')"

MakePython = Callable[..., str]


@pytest.fixture
def python(tmp_path: Path) -> MakePython:
    """Interpreters of jobs that see the standard library and this package, so that a check takes a moment."""

    def make(name: str = "plain", before: str = "") -> str:
        place = tmp_path / name / "python3"
        place.parent.mkdir()
        place.write_text(f'#!/bin/sh\n{before}\nPYTHONPATH=${{PYTHONPATH-{PACKAGE}}} exec {sys.executable} -S "$@"\n')
        place.chmod(0o755)
        return str(place)

    return make


@pytest.fixture
def local(tmp_path: Path) -> LocalBackend:
    return LocalBackend(tmp_path / "state", fake_devices(4, host="here"))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Disks are checked where jobs work, and a node that does not know its own name is unfit."""
    needs.names()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def reports(backend: Backend, kind: ReportKind) -> list[Report]:
    return [report for report in backend.reports("run-1", 0) if report.kind is kind]


def test_a_machine_that_is_fit_is_checked_once_and_then_used(local: LocalBackend, python: MakePython) -> None:
    local.launch(make_launch(local, (python(), "-c", HELLO), 2, working_dir=".", preflight=QUICK))
    assert wait_for_end(local, "run-1").kind is ReportKind.FINISHED, output(local, "run-1")
    told = kinds(local.reports("run-1", 0))
    assert told.index("node_fit") < told.index("worker_started")
    (fit,) = reports(local, ReportKind.NODE_FIT)
    assert (fit.node, fit.level) == ("here", "quick")
    assert "checking here before workers start there (preflight: quick)" in output(local, "run-1")
    assert output(local, "run-1", "w1") == "hello\n", "what a check says is none of a worker's output"


@pytest.mark.parametrize(
    "asked",
    [
        Preflight(level=PreflightLevel.FULL, fit=("here",)),
        Preflight(level=PreflightLevel.FULL, from_devices=3),
    ],
)
def test_a_node_that_is_known_to_be_fit_or_a_small_world_is_not_checked(
    local: LocalBackend, python: MakePython, asked: Preflight
) -> None:
    local.launch(make_launch(local, (python(), "-c", HELLO), 2, working_dir=".", preflight=asked))
    assert wait_for_end(local, "run-1").kind is ReportKind.FINISHED
    assert not reports(local, ReportKind.NODE_FIT)


def test_what_fails_in_the_jobs_environment_alone_is_not_the_nodes_fault(
    local: LocalBackend, python: MakePython
) -> None:
    cramped = python("cramped", before="ulimit -n 256")
    local.launch(make_launch(local, (cramped, "-c", HELLO), working_dir=".", preflight=QUICK))
    last = wait_for_end(local, "run-1")
    assert (last.kind, last.reason) == (ReportKind.FAILED, "preflight"), output(local, "run-1")
    assert "in the job's environment but not in Penstock's: open files: 256" in " ".join(last.tail)
    assert not reports(local, ReportKind.NODE_UNFIT)
    assert not reports(local, ReportKind.WORKER_STARTED)


def test_an_environment_without_this_package_is_stood_in_for(local: LocalBackend, python: MakePython) -> None:
    local.launch(
        make_launch(local, (python(), "-c", HELLO), working_dir=".", preflight=QUICK, env=(("PYTHONPATH", ""),))
    )
    assert wait_for_end(local, "run-1").kind is ReportKind.FINISHED, output(local, "run-1")
    assert "the job's environment cannot check its node" in output(local, "run-1")
    assert len(reports(local, ReportKind.NODE_FIT)) == 1


def test_a_run_that_is_stopped_while_its_node_is_checked_leaves_nothing(
    local: LocalBackend, python: MakePython, tmp_path: Path
) -> None:
    asleep = tmp_path / "asleep"
    slow = python("slow", before=f"touch {tmp_path}/begun; exec sh -c 'sleep 600; true' {asleep}")
    local.launch(make_launch(local, (slow, "-c", HELLO), working_dir=".", preflight=QUICK))
    until((tmp_path / "begun").exists, "the beginning of the check")
    until(lambda: _named(asleep), "a check that takes long")
    until(lambda: [one.state for one in local.runs()] == ["waiting"], "a run that waits")
    assert [one.reason for one in local.runs()] == ["checking here before workers start there"]
    local.stop("run-1", 5.0)
    assert wait_for_end(local, "run-1").reason == "stopped"
    assert not reports(local, ReportKind.NODE_UNFIT)
    until(lambda: not _named(asleep), "the end of the check")


def _named(word: Path) -> list[psutil.Process]:
    return [each for each in psutil.process_iter() if str(word) in _words(each)]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_the_node_of_a_container_is_checked_inside_of_it(local: LocalBackend, tmp_path: Path) -> None:
    docker = fake_docker(tmp_path / "bin")
    inside = Container(image="torch:2", runtime=str(docker))
    source = str(Path(penstock.__file__).parents[1])
    launch = make_launch(
        local,
        ("python3", "-c", HELLO),
        working_dir=".",
        preflight=QUICK,
        container=inside,
        env=(("PYTHONPATH", source),),
    )
    local.launch(launch)
    assert wait_for_end(local, "run-1").kind is ReportKind.FINISHED, output(local, "run-1")
    assert len(reports(local, ReportKind.NODE_FIT)) == 1
    assert "cannot check its node" not in output(local, "run-1")
    check, worker = [words for words in calls(docker) if words[0] == "run"]
    assert check[check.index("torch:2") + 1 :][:4] == ["python3", "-P", "-m", "penstock.diagnose.preflight"]
    assert worker[worker.index("torch:2") + 1 :] == ["python3", "-c", HELLO]


# --- on other machines ------------------------------------------------------------------------------------------------


@pytest.fixture
def spanning(tmp_path: Path) -> SpanningBackend:
    """Two nodes, one of which has too few descriptors for training, whatever Python asks."""
    needs.engine("prlimit")
    return SpanningBackend(tmp_path / "state", prefixes={"right": TOO_FEW_FILES})


ACROSS = (DeviceSlot("left", 0), DeviceSlot("right", 0), DeviceSlot("right", 1))


def test_no_worker_starts_where_a_node_fails(spanning: SpanningBackend, python: MakePython) -> None:
    launch = make_launch(
        spanning, (python(), "-c", HELLO), workers=workers_on(ACROSS), working_dir=".", preflight=QUICK
    )
    spanning.launch(launch)
    last = wait_for_end(spanning, "run-1")
    assert (last.kind, last.reason, last.code) == (ReportKind.FAILED, "preflight", 69), output(spanning, "run-1")
    (unfit,) = reports(spanning, ReportKind.NODE_UNFIT)
    assert unfit.node == "right"
    assert unfit.reason is not None
    assert unfit.reason.startswith("open files: 1024, expected at least 4096")
    assert [fit.node for fit in reports(spanning, ReportKind.NODE_FIT)] == ["left"]
    assert not reports(spanning, ReportKind.WORKER_STARTED)


def test_a_node_that_a_run_grows_onto_is_checked_too(spanning: SpanningBackend, python: MakePython) -> None:
    waits = "import time; print('here', flush=True); time.sleep(600)"
    spanning.launch(
        make_launch(spanning, (python(), "-c", waits), workers=workers_on(ACROSS[:1]), working_dir=".", preflight=QUICK)
    )
    until(lambda: reports(spanning, ReportKind.WORKER_STARTED), "the first worker")
    spanning.resize("run-1", workers_on(ACROSS[:2]), 1)
    last = wait_for_end(spanning, "run-1")
    assert (last.kind, last.reason) == (ReportKind.FAILED, "preflight")
    assert [each.node for each in reports(spanning, ReportKind.NODE_UNFIT)] == ["right"]
    assert [each.node for each in reports(spanning, ReportKind.NODE_FIT)] == ["left"]


def test_an_elastic_run_goes_on_without_a_newcomer_whose_node_is_unfit(
    spanning: SpanningBackend, python: MakePython
) -> None:
    elastic = (python(), str(Path(__file__).with_name("elastic_worker.py")))
    asked = Preflight(level=PreflightLevel.QUICK, fit=("left",))
    spanning.launch(make_launch(spanning, elastic, workers=workers_on(ACROSS[:1]), working_dir=".", preflight=asked))
    wait_for(spanning, "run-1", ReportKind.PROGRESS)
    spanning.resize("run-1", workers_on(ACROSS[:2]), 1)
    unfit = wait_for(spanning, "run-1", ReportKind.NODE_UNFIT)
    assert unfit.node == "right"
    resized = wait_for(spanning, "run-1", ReportKind.RESIZED)
    assert (resized.width, resized.in_place) == (1, True)
    assert [started.worker for started in reports(spanning, ReportKind.WORKER_STARTED)] == ["w0"]
    wait_for(spanning, "run-1", ReportKind.PROGRESS, count=len(reports(spanning, ReportKind.PROGRESS)) + 1)
    spanning.stop("run-1", 5.0)
    assert wait_for_end(spanning, "run-1").reason == "stopped"


def test_a_host_that_dies_while_its_node_is_checked_is_lost_like_any_other(tmp_path: Path, python: MakePython) -> None:
    backend = SpanningBackend(tmp_path / "state")
    slow = python("slow", before=f"touch {tmp_path}/begun; sleep 600")
    backend.launch(
        make_launch(backend, (slow, "-c", HELLO), workers=workers_on(ACROSS[:2]), working_dir=".", preflight=QUICK)
    )
    until((tmp_path / "begun").exists, "the beginning of the check")
    for file in (tmp_path / "state" / "runs" / "run-1" / "parts").glob("*.pid"):
        os.kill(int(file.read_text()), signal.SIGKILL)
    last = wait_for_end(backend, "run-1")
    assert (last.kind, last.reason) == (ReportKind.FAILED, "deleted"), output(backend, "run-1")


@pytest.mark.long
def test_nodes_of_one_run_try_collectives_in_pairs(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    backend = SpanningBackend(tmp_path / "state")
    backend.launch(
        make_launch(
            backend, (sys.executable, "-c", HELLO), workers=workers_on(ACROSS[:2]), working_dir=".", preflight=QUICK
        )
    )
    assert wait_for_end(backend, "run-1").kind is ReportKind.FINISHED, output(backend, "run-1")
    assert {fit.node for fit in reports(backend, ReportKind.NODE_FIT)} == {"left", "right"}
    assert "collectives in pairs of 2 nodes, rounds: 1" in output(backend, "run-1")
