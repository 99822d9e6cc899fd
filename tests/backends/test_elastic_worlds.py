"""Workers that speak the protocol change worlds without being restarted."""

import os
import signal
import sys
from pathlib import Path

import pytest

from penstock.backends import Backend, BackendError
from penstock.core import Report, ReportKind, Worker
from tests.backends.watching import (
    NODE,
    kinds,
    make_launch,
    output,
    processes_of,
    status,
    until,
    wait_for,
    wait_for_end,
    wait_for_output,
    workers,
)

COMMAND = (sys.executable, str(Path(__file__).with_name("elastic_worker.py")))
RUN = "run-1"


def begin(backend: Backend, count: int, **env: str) -> None:
    backend.launch(make_launch(COMMAND, count, env=tuple(env.items()), grace_s=60.0))


def begin_and_train(backend: Backend, count: int, **env: str) -> None:
    begin(backend, count, **env)
    wait_for(backend, RUN, ReportKind.PROGRESS)


def pids(backend: Backend) -> dict[str | None, list[int | None]]:
    found: dict[str | None, list[int | None]] = {}
    for report in backend.reports(RUN, 0):
        if report.kind is ReportKind.WORKER_STARTED:
            found.setdefault(report.worker, []).append(report.pid)
    return found


def exits(backend: Backend) -> dict[str | None, tuple[int | None, str | None]]:
    reports = [report for report in backend.reports(RUN, 0) if report.kind is ReportKind.WORKER_EXITED]
    return {report.worker: (report.code, report.reason) for report in reports}


def kill(backend: Backend, worker: str) -> None:
    pid = pids(backend)[worker][-1]
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def trains_on(backend: Backend, width: int) -> Report:
    return wait_for(backend, RUN, ReportKind.PROGRESS, width=width)


def test_a_run_of_elastic_workers_finishes(local: Backend) -> None:
    begin(local, 2, TOTAL="5")
    assert wait_for_end(local, RUN).kind is ReportKind.FINISHED
    progress = [report for report in local.reports(RUN, 0) if report.kind is ReportKind.PROGRESS]
    assert (progress[-1].step, progress[-1].total, progress[-1].samples_per_s) == (5, 5, None)
    assert "resized" not in kinds(local.reports(RUN, 0))
    assert exits(local) == {"w0": (0, "done"), "w1": (0, "done")}


def test_growing_keeps_the_processes_that_train(local: Backend) -> None:
    begin_and_train(local, 1)
    local.resize(RUN, workers(3), 1)
    resized = wait_for(local, RUN, ReportKind.RESIZED)
    assert (resized.generation, resized.width, resized.in_place, resized.pause_s) == (1, 3, True, 0.01)
    assert {worker: len(found) for worker, found in pids(local).items()} == {"w0": 1, "w1": 1, "w2": 1}
    assert "world 1 2 3 w0\n" in output(local, RUN, "w2")
    assert output(local, RUN, "w0") == "world 0 0 1\nworld 1 0 3 w0\n"
    trains_on(local, 3)


def test_shrinking_lets_the_others_go(local: Backend) -> None:
    begin_and_train(local, 3)
    local.resize(RUN, (Worker(id="w2", rank=0, node=NODE, slot=2),), 1)
    assert wait_for(local, RUN, ReportKind.RESIZED).width == 1
    wait_for(local, RUN, ReportKind.WORKER_EXITED, count=2)
    assert exits(local) == {"w0": (0, "asked"), "w1": (0, "asked")}
    assert "world 1 0 1 w2" in output(local, RUN, "w2")
    trains_on(local, 1)


def test_the_same_resize_twice_is_one_resize(local: Backend) -> None:
    begin_and_train(local, 1)
    for _ in range(3):
        local.resize(RUN, workers(2), 1)
    wait_for(local, RUN, ReportKind.RESIZED)
    local.resize(RUN, workers(2), 1)
    with pytest.raises(BackendError, match="overtaken"):
        local.resize(RUN, workers(3), 1)
    trains_on(local, 2)
    assert kinds(local.reports(RUN, 0)).count("resized") == 1


def test_two_resizes_in_a_row_end_in_the_second(local: Backend) -> None:
    begin_and_train(local, 1)
    local.resize(RUN, workers(4), 1)
    local.resize(RUN, workers(2), 2)
    assert wait_for(local, RUN, ReportKind.RESIZED, generation=2).width == 2
    until(lambda: {"w2", "w3"} <= exits(local).keys(), "w2 and w3 to leave")
    trains_on(local, 2)


@pytest.mark.parametrize("victim", ["w0", "w2"])
def test_survivors_go_on_without_a_dead_worker(local: Backend, victim: str) -> None:
    begin_and_train(local, 3)
    kill(local, victim)
    resized = wait_for(local, RUN, ReportKind.RESIZED)
    assert (resized.generation, resized.width, resized.in_place) == (1, 2, True)
    assert exits(local) == {victim: (137, "died")}
    trains_on(local, 2)


def test_after_a_death_the_server_can_still_resize(local: Backend) -> None:
    begin_and_train(local, 2)
    kill(local, "w1")
    wait_for(local, RUN, ReportKind.RESIZED)
    local.resize(RUN, workers(3), 1)
    assert wait_for(local, RUN, ReportKind.RESIZED, width=3).generation == 2
    assert len(pids(local)["w1"]) == 2


def test_the_last_death_is_a_failure_that_names_the_first(local: Backend) -> None:
    begin_and_train(local, 2)
    for worker in ("w0", "w1"):
        kill(local, worker)
    last = wait_for_end(local, RUN)
    assert (last.kind, last.code, last.reason) == (ReportKind.FAILED, 137, "signal")


def test_a_worker_that_cannot_start_fails_the_run(local: Backend) -> None:
    begin(local, 2, CRASH_AT_START="w1")
    last = wait_for_end(local, RUN)
    assert (last.kind, last.code, last.tail) == (ReportKind.FAILED, 1, ("cannot start",))


def test_a_newcomer_that_cannot_start_is_left_out(local: Backend) -> None:
    begin_and_train(local, 1, CRASH_AT_START="w1")
    local.resize(RUN, workers(3), 1)
    assert wait_for(local, RUN, ReportKind.RESIZED).width == 2
    assert "world 1 1 2 w0" in output(local, RUN, "w2")
    local.resize(RUN, workers(3)[:2], 2)
    wait_for(local, RUN, ReportKind.RESIZED, generation=2)
    assert not {"failed", "finished"} & set(kinds(local.reports(RUN, 0)))


def test_a_run_that_finishes_does_not_wait_for_newcomers(local: Backend) -> None:
    begin_and_train(local, 1, TOTAL="60", NEVER_READY="w1")
    local.resize(RUN, workers(2), 1)
    assert wait_for_end(local, RUN).kind is ReportKind.FINISHED
    assert exits(local)["w1"][1] == "asked"


def test_suspend_lets_workers_save_and_leave(local: Backend) -> None:
    begin_and_train(local, 2)
    local.suspend(RUN)
    local.suspend(RUN)
    last = wait_for_end(local, RUN)
    assert last.kind is ReportKind.SUSPENDED
    assert last.step is not None
    assert last.step > 0
    assert exits(local) == {"w0": (0, "asked"), "w1": (0, "asked")}


def test_a_suspended_run_goes_on_as_a_later_generation(local: Backend) -> None:
    begin_and_train(local, 1)
    local.suspend(RUN)
    before = wait_for_end(local, RUN).seq
    local.launch(make_launch(COMMAND, 2, generation=1, env=(("TOTAL", "3"),)))
    assert wait_for_end(local, RUN).kind is ReportKind.FINISHED
    assert local.reports(RUN, before)[0].seq == before + 1


def test_moving_to_other_devices_altogether_restarts(local: Backend) -> None:
    begin_and_train(local, 1)
    local.resize(RUN, workers(2, first=4), 1)
    resized = wait_for(local, RUN, ReportKind.RESIZED)
    assert (resized.width, resized.in_place) == (2, False)
    assert exits(local)["w0"] == (0, "asked")
    wait_for_output(local, RUN, "world 1 1 2\n", "w5")


def test_workers_do_not_outlive_an_agent_that_was_killed(local: Backend, state_dir: Path) -> None:
    begin_and_train(local, 2)
    agent = wait_for(local, RUN, ReportKind.LAUNCHED).pid
    assert agent is not None
    os.kill(agent, signal.SIGKILL)
    until(lambda: not processes_of(state_dir), "the workers to end")
    until(lambda: not status(local, RUN).alive, "the run to count as dead")
    assert local.usage(RUN).memory_bytes == 0
    with pytest.raises(BackendError, match="cannot be reached"):
        local.suspend(RUN)
    local.stop(RUN, 1.0)
    local.launch(make_launch(COMMAND, 1, attempt=1, env=(("TOTAL", "3"),)))
    assert wait_for_end(local, RUN).kind is ReportKind.FINISHED
    reports = local.reports(RUN, 0)
    assert [report.seq for report in reports] == list(range(1, len(reports) + 1))
