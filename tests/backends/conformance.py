"""What every backend must do, whatever it starts processes with.

Subclass :class:`BackendConformance` and give it an ``opened`` fixture: a function that opens the same backend again and
again, as servers that follow one another would. Scripts are plain Python without any library, so a backend passes or
fails here within seconds.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from penstock.backends import Backend
from penstock.core import InputError, ReportKind
from tests.backends.watching import (
    kinds,
    make_launch,
    output,
    status,
    until,
    wait_for,
    wait_for_end,
    wait_for_output,
    workers,
)

SLEEPER = "import time; print('here', flush=True); time.sleep(600)"
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('here', flush=True)
time.sleep(600)
"""
CAREFUL = """
import signal, sys, time
def save(*_):
    print('saving', flush=True)
    time.sleep(0.2)
    print('saved', flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print('here', flush=True)
time.sleep(600)
"""
PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])
away = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)
print('children', child.pid, away.pid, flush=True)
time.sleep(600 if sys.argv[1] == 'stay' else 0)
sys.exit(3 if sys.argv[1] == 'fail' else 0)
"""
BUSY = """
import subprocess, sys
hold = bytearray(80_000_000)
print('here', flush=True)
subprocess.run([sys.executable, '-c', 'while True: pass'])
"""


def python(code: str, *args: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code, *args)


class BackendConformance:
    """The promises of :class:`penstock.backends.Backend`."""

    @pytest.fixture
    def opened(self) -> Callable[[], Backend]:
        raise NotImplementedError("give a function that opens the backend under test")

    @pytest.fixture
    def backend(self, opened: Callable[[], Backend]) -> Backend:
        return opened()

    # --- from launch to end ---------------------------------------------------------------------------------------

    def test_a_run_tells_its_whole_story_in_order(self, backend: Backend) -> None:
        code = "print('penstock: step=3 total=10 loss=0.5')"
        backend.launch(make_launch(python(code), 2))
        last = wait_for_end(backend, "run-1")
        reports = backend.reports("run-1", 0)
        assert (last.kind, last.code) == (ReportKind.FINISHED, 0)
        assert [report.seq for report in reports] == list(range(1, len(reports) + 1))
        assert kinds(reports)[0] == "launched"
        assert sorted(r.worker or "" for r in reports if r.kind is ReportKind.WORKER_STARTED) == ["w0", "w1"]
        assert sorted(r.worker or "" for r in reports if r.kind is ReportKind.WORKER_EXITED) == ["w0", "w1"]
        assert sorted(report.at for report in reports) == [report.at for report in reports]

    def test_progress_is_heard_from_rank_zero(self, backend: Backend) -> None:
        code = "import os; print('penstock: step=7 total=10 loss=0.25 samples_per_s=64') if os.environ['RANK']=='0' else print('penstock: step=99')"  # noqa: E501
        backend.launch(make_launch(python(code), 2))
        wait_for_end(backend, "run-1")
        progress = [r for r in backend.reports("run-1", 0) if r.kind is ReportKind.PROGRESS]
        assert [(r.step, r.total, r.loss, r.samples_per_s, r.width) for r in progress] == [(7, 10, 0.25, 64.0, 2)]

    def test_workers_see_the_variables_of_a_launcher(self, backend: Backend) -> None:
        code = """
import os
names = ['RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'LOCAL_WORLD_SIZE', 'GROUP_RANK', 'NNODES', 'TORCHELASTIC_RESTART_COUNT',
         'PENSTOCK_JOB_ID', 'PENSTOCK_WORKER', 'PENSTOCK_GENERATION', 'PENSTOCK_ATTEMPT', 'MINE']
print(*[os.environ[name] for name in names])
assert int(os.environ['MASTER_PORT']) > 0 and os.environ['MASTER_ADDR']
assert os.path.isdir(os.environ['PENSTOCK_CHECKPOINT_DIR']) and os.path.isdir(os.environ['PENSTOCK_RUN_DIR'])
"""
        backend.launch(make_launch(python(code), 2, generation=4, attempt=1, env=(("MINE", "yes"),)))
        assert wait_for_end(backend, "run-1").kind is ReportKind.FINISHED, output(backend, "run-1")
        assert output(backend, "run-1", "w1") == "1 1 2 2 0 1 1 job-1 w1 4 1 yes\n"

    def test_a_failure_comes_with_code_and_last_lines(self, backend: Backend) -> None:
        code = "import sys\nfor i in range(50): print('line', i)\nprint('the cause', file=sys.stderr)\nsys.exit(3)"
        backend.launch(make_launch(python(code)))
        last = wait_for_end(backend, "run-1")
        assert (last.kind, last.code, last.reason) == (ReportKind.FAILED, 3, "exit")
        assert len(last.tail) == 20
        assert "the cause" in last.tail
        assert "line 49" in last.tail

    def test_one_failing_worker_ends_the_others(self, backend: Backend) -> None:
        code = f"import os, sys\nif os.environ['RANK'] == '1': sys.exit(4)\n{SLEEPER}"
        backend.launch(make_launch(python(code), 3))
        last = wait_for_end(backend, "run-1")
        assert (last.kind, last.code) == (ReportKind.FAILED, 4)
        exits = {r.worker: r.reason for r in backend.reports("run-1", 0) if r.kind is ReportKind.WORKER_EXITED}
        assert exits == {"w0": "asked", "w1": "died", "w2": "asked"}

    def test_a_command_that_does_not_exist_is_a_failure(self, backend: Backend) -> None:
        backend.launch(make_launch(("no-such-program", "--flag")))
        last = wait_for_end(backend, "run-1")
        assert (last.kind, last.code) == (ReportKind.FAILED, 127)
        assert "no-such-program" in last.tail[-1]

    def test_a_killed_worker_is_a_failure_by_signal(self, backend: Backend) -> None:
        backend.launch(make_launch(python(SLEEPER), 2))
        pid = wait_for(backend, "run-1", ReportKind.WORKER_STARTED, worker="w1").pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        last = wait_for_end(backend, "run-1")
        assert (last.kind, last.code, last.reason) == (ReportKind.FAILED, 137, "signal")
        exited = wait_for(backend, "run-1", ReportKind.WORKER_EXITED, worker="w1")
        assert (exited.code, exited.signal) == (137, 9)

    def test_a_silent_run_counts_as_hung(self, backend: Backend) -> None:
        backend.launch(make_launch(python(SLEEPER), hang_after_s=0.6))
        last = wait_for_end(backend, "run-1")
        assert (last.kind, last.reason) == (ReportKind.FAILED, "hang")
        assert "here" in last.tail

    def test_output_keeps_the_watchdog_quiet(self, backend: Backend) -> None:
        code = "import time\nfor i in range(12): print(i, flush=True); time.sleep(0.1)"
        backend.launch(make_launch(python(code), hang_after_s=0.9))
        assert wait_for_end(backend, "run-1").kind is ReportKind.FINISHED

    # --- commands -------------------------------------------------------------------------------------------------

    def test_launch_is_idempotent(self, backend: Backend) -> None:
        launch = make_launch(python(SLEEPER))
        backend.launch(launch)
        backend.launch(launch)
        wait_for_output(backend, "run-1", "here")
        assert kinds(backend.reports("run-1", 0)).count("worker_started") == 1
        backend.stop("run-1", 5.0)
        wait_for_end(backend, "run-1")
        before = backend.reports("run-1", 0)
        backend.launch(launch)
        assert backend.reports("run-1", 0) == before
        assert not status(backend, "run-1").alive

    def test_a_later_attempt_of_an_ended_run_goes_on_in_the_same_journal(self, backend: Backend) -> None:
        code = "import os; print('attempt', os.environ['PENSTOCK_ATTEMPT'])"
        backend.launch(make_launch(python(code)))
        wait_for_end(backend, "run-1")
        first = backend.reports("run-1", 0)
        backend.launch(make_launch(python(code), attempt=1))
        wait_for_end(backend, "run-1")
        assert [r.seq for r in backend.reports("run-1", 0)] == list(range(1, 2 * len(first) + 1))
        assert output(backend, "run-1", "w0") == "attempt 0\nattempt 1\n"

    def test_stop_gives_a_script_its_grace(self, backend: Backend) -> None:
        backend.launch(make_launch(python(CAREFUL), 2))
        for worker in ("w0", "w1"):
            wait_for_output(backend, "run-1", "here", worker)
        backend.stop("run-1", 10.0)
        last = wait_for_end(backend, "run-1")
        assert (last.kind, last.reason) == (ReportKind.FAILED, "stopped")
        assert output(backend, "run-1", "w0") == output(backend, "run-1", "w1") == "here\nsaving\nsaved\n"

    def test_stop_ends_those_who_do_not_listen(self, backend: Backend) -> None:
        backend.launch(make_launch(python(STUBBORN), grace_s=60.0))
        wait_for_output(backend, "run-1", "here")
        backend.stop("run-1", 60.0)
        backend.stop("run-1", 0.1)
        assert wait_for_end(backend, "run-1").reason == "stopped"
        assert wait_for(backend, "run-1", ReportKind.WORKER_EXITED).signal == signal.SIGKILL

    def test_a_shell_passes_the_signal_on(self, backend: Backend, tmp_path: Path) -> None:
        script = tmp_path / "careful.py"
        script.write_text(CAREFUL)
        backend.launch(make_launch(("sh", "-c", f"{sys.executable} {script}; true")))
        wait_for_output(backend, "run-1", "here")
        backend.stop("run-1", 10.0)
        wait_for_end(backend, "run-1")
        assert "saved" in output(backend, "run-1")

    def test_what_a_shell_runs_has_no_more_than_its_grace(self, backend: Backend, tmp_path: Path) -> None:
        script = tmp_path / "stubborn.py"
        script.write_text(STUBBORN)
        backend.launch(make_launch(("sh", "-c", f"{sys.executable} {script}; true")))
        wait_for_output(backend, "run-1", "here")
        backend.stop("run-1", 0.3)
        assert wait_for_end(backend, "run-1").reason == "stopped"

    def test_suspend_ends_a_plain_run_as_suspended(self, backend: Backend) -> None:
        backend.launch(make_launch(python("print('penstock: checkpointed step=5 path=/x')\n" + CAREFUL)))
        wait_for_output(backend, "run-1", "here")
        backend.suspend("run-1")
        last = wait_for_end(backend, "run-1")
        assert (last.kind, last.step) == (ReportKind.SUSPENDED, 5)
        assert "saved" in output(backend, "run-1")

    def test_resize_restarts_a_plain_run_in_the_new_width(self, backend: Backend) -> None:
        code = (
            "import os; print('width', os.environ['WORLD_SIZE'], os.environ['TORCHELASTIC_RESTART_COUNT'])\n" + CAREFUL
        )
        backend.launch(make_launch(python(code), 1))
        wait_for_output(backend, "run-1", "here")
        backend.resize("run-1", workers(3), 1)
        backend.resize("run-1", workers(3), 1)
        resized = wait_for(backend, "run-1", ReportKind.RESIZED)
        assert (resized.generation, resized.width, resized.in_place) == (1, 3, False)
        assert resized.pause_s is not None
        assert resized.pause_s >= 0.2
        wait_for_output(backend, "run-1", "here", "w2")
        wait_for_output(backend, "run-1", "width 3 1\n", "w0")
        assert "saved\nwidth 3 1\n" in output(backend, "run-1", "w0")
        assert kinds(backend.reports("run-1", 0)).count("resized") == 1
        backend.stop("run-1", 5.0)
        wait_for_end(backend, "run-1")

    def test_a_resize_that_was_overtaken_is_refused(self, backend: Backend) -> None:
        backend.launch(make_launch(python(SLEEPER), 1, generation=3))
        wait_for_output(backend, "run-1", "here")
        with pytest.raises(Exception, match="generation"):
            backend.resize("run-1", workers(2), 2)
        assert "resized" not in kinds(backend.reports("run-1", 0))
        backend.stop("run-1", 1.0)
        wait_for_end(backend, "run-1")

    # --- nothing is left behind -------------------------------------------------------------------------------------

    @pytest.mark.parametrize("how", ["stay", "fail", "finish"])
    def test_children_and_their_runaways_end_with_the_run(self, backend: Backend, how: str) -> None:
        backend.launch(make_launch(python(PARENT, how)))
        line = wait_for_output(backend, "run-1", "children")
        children = [int(word) for word in line.split("children", 1)[1].split()[:2]]
        if how == "stay":
            backend.stop("run-1", 0.2)
        wait_for_end(backend, "run-1")
        assert [pid for pid in children if psutil.pid_exists(pid)] == []

    def test_children_and_their_runaways_end_with_their_world(self, backend: Backend) -> None:
        backend.launch(make_launch(python(PARENT, "stay")))
        line = wait_for_output(backend, "run-1", "children")
        children = [int(word) for word in line.split("children", 1)[1].split()[:2]]
        backend.resize("run-1", workers(2), 1)
        wait_for(backend, "run-1", ReportKind.RESIZED)
        assert [pid for pid in children if psutil.pid_exists(pid)] == []
        assert status(backend, "run-1").alive
        backend.stop("run-1", 0.2)
        wait_for_end(backend, "run-1")

    def test_runs_can_be_forgotten_and_their_logs_stay(self, backend: Backend) -> None:
        backend.launch(make_launch(python("print('hello')")))
        wait_for_end(backend, "run-1")
        backend.forget("run-1")
        backend.forget("run-1")
        assert backend.runs() == ()
        assert output(backend, "run-1") == "[0] hello\n"

    def test_a_living_run_cannot_be_forgotten(self, backend: Backend) -> None:
        backend.launch(make_launch(python(SLEEPER)))
        with pytest.raises(InputError, match="still lives"):
            backend.forget("run-1")
        backend.stop("run-1", 0.0)
        wait_for_end(backend, "run-1")

    # --- servers come and go ----------------------------------------------------------------------------------------

    def test_another_server_finds_the_run_and_commands_it(self, opened: Callable[[], Backend]) -> None:
        first = opened()
        first.launch(make_launch(python(CAREFUL)))
        seen = wait_for(first, "run-1", ReportKind.WORKER_STARTED).seq
        del first
        second = opened()
        assert [(one.run_id, one.alive) for one in second.runs()] == [("run-1", True)]
        assert second.runs()[0].last_seq >= seen
        wait_for_output(second, "run-1", "here")
        second.stop("run-1", 5.0)
        wait_for_end(second, "run-1")
        assert second.reports("run-1", seen)[0].seq == seen + 1

    def test_reports_can_be_read_again_from_anywhere(self, backend: Backend) -> None:
        backend.launch(make_launch(python("print('x')")))
        wait_for_end(backend, "run-1")
        every = backend.reports("run-1", 0)
        for after in (*range(len(every) + 1), 2, 0):
            assert backend.reports("run-1", after) == every[after:]

    # --- logs and usage -----------------------------------------------------------------------------------------------

    def test_logs_are_read_page_by_page(self, backend: Backend) -> None:
        backend.launch(make_launch(python("for i in range(1000): print('line', i)")))
        wait_for_end(backend, "run-1")
        pages, offset = [], 0
        while True:
            page, following = backend.logs("run-1", "w0", offset, 777)
            assert following == offset + len(page)
            if not page:
                break
            pages.append(page)
            offset = following
        assert b"".join(pages).decode().splitlines() == [f"line {i}" for i in range(1000)]
        assert max(len(page) for page in pages) == 777

    def test_unknown_names_are_refused(self, backend: Backend) -> None:
        backend.launch(make_launch(python("pass")))
        wait_for_end(backend, "run-1")
        with pytest.raises(InputError, match="run-1"):
            backend.reports("run-7", 0)
        with pytest.raises(InputError, match="w0"):
            backend.logs("run-1", "w7", 0, 10)
        with pytest.raises(InputError, match="run id"):
            backend.launch(make_launch(python("pass"), run_id="../elsewhere"))

    def test_usage_counts_the_whole_tree(self, backend: Backend) -> None:
        backend.launch(make_launch(python(BUSY)))
        wait_for_output(backend, "run-1", "here")
        until(lambda: backend.usage("run-1").cpu_s > 0.5, "a busy child")
        assert backend.usage("run-1").cpu_percent > 0
        assert backend.usage("run-1").memory_bytes > 80_000_000
        backend.stop("run-1", 0.0)
        wait_for_end(backend, "run-1")
        assert backend.usage("run-1").memory_bytes == 0
