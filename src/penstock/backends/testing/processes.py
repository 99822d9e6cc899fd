"""What people see of processes that really run: their environment, output, signals and exit codes.

Scripts are plain Python without any library, so a backend passes or fails here within seconds. Nothing is assumed of
where a process runs: no process id, and no file that worker and test share.
"""

import shlex
import signal
import sys

import pytest

from penstock.backends.base import Backend
from penstock.backends.testing.contract import BackendContract
from penstock.backends.testing.watching import (
    cpu_worker,
    kinds,
    make_launch,
    output,
    slots_of,
    until,
    wait_for,
    wait_for_end,
    wait_for_output,
    workers_on,
)
from penstock.core import CPU_WORKER, InputError, ReportKind

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
BUSY = """
import subprocess, sys
hold = bytearray(80_000_000)
print('here', flush=True)
subprocess.run([sys.executable, '-c', 'while True: pass'])
"""


class ProcessConformance(BackendContract):
    """Every backend whose workers are processes, wherever they run."""

    interpreter = sys.executable
    """A Python where the workers run."""

    def python(self, code: str) -> tuple[str, ...]:
        return (self.interpreter, "-c", code)

    # --- a worker without a device --------------------------------------------------------------------------------

    def test_what_workers_left_behind_ends_when_they_do_and_what_the_one_without_a_device_started_goes_on(
        self, backend: Backend
    ) -> None:
        beside = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', {!r}])"
        endless = "import time\nwhile True: print({!r}, flush=True); time.sleep(0.05)"
        alone = self.python(f"{beside.format(endless.format('mine'))}.wait()")
        workers = self.python(beside.format(endless.format("left behind")))
        backend.launch(make_launch(backend, workers, cpu_worker=cpu_worker(backend, alone)))
        wait_for(backend, "run-1", ReportKind.RELEASED)
        wait_for_output(backend, "run-1", "mine", CPU_WORKER)
        told = output(backend, "run-1")
        until(lambda: output(backend, "run-1")[len(told) :].count("mine") > 20, "the one to go on")
        assert output(backend, "run-1")[len(told) :].count("left behind") <= 1
        backend.stop("run-1", 5.0)
        wait_for_end(backend, "run-1")

    def test_the_worker_without_a_device_sees_none_and_tells_metrics(self, backend: Backend) -> None:
        code = "import os; print('penstock:', f\"hidden={int(os.environ['CUDA_VISIBLE_DEVICES'] == '')}\")"
        alone = self.python(f"{code}; print('penstock: size=' + os.environ['WORLD_SIZE'])")
        backend.launch(make_launch(backend, self.brief, 2, cpu_worker=cpu_worker(backend, alone)))
        assert wait_for_end(backend, "run-1").kind is ReportKind.FINISHED
        found = {series.name: series.last.value for series in backend.metrics("run-1")}
        assert found == {"hidden": 1.0, "size": 1.0}

    # --- from launch to end ---------------------------------------------------------------------------------------

    def test_progress_is_heard_from_rank_zero(self, backend: Backend) -> None:
        said = {"0": "step=7 total=10 loss=0.25 samples_per_s=64", "1": "step=99"}
        code = f"import os; print('penstock:', {said}[os.environ['RANK']])"
        backend.launch(make_launch(backend, self.python(code), 2))
        wait_for_end(backend, "run-1")
        progress = [r for r in backend.reports("run-1", 0) if r.kind is ReportKind.PROGRESS]
        assert [(r.step, r.total, r.loss, r.samples_per_s, r.width) for r in progress] == [(7, 10, 0.25, 64.0, 2)]

    def test_metrics_are_heard_from_rank_zero_and_outlive_the_run(self, backend: Backend) -> None:
        said = {"0": "step=7 total=10 loss=0.25\npenstock: val_acc=0.5", "1": "step=7 loss=99"}
        code = f"import os; print('penstock:', {said}[os.environ['RANK']])"
        backend.launch(make_launch(backend, self.python(code), 2))
        wait_for_end(backend, "run-1")
        backend.forget("run-1")
        found = {
            series.name: [(point.step, point.value) for point in series.points] for series in backend.metrics("run-1")
        }
        assert found == {"loss": [(7, 0.25)], "val_acc": [(7, 0.5)]}
        assert backend.metrics("run-2") == ()

    def test_workers_see_the_variables_of_a_launcher(self, backend: Backend) -> None:
        code = """
import os
names = ['RANK', 'WORLD_SIZE', 'TORCHELASTIC_RESTART_COUNT', 'PENSTOCK_JOB_ID', 'PENSTOCK_WORKER',
         'PENSTOCK_GENERATION', 'PENSTOCK_ATTEMPT', 'MINE']
print(*[os.environ[name] for name in names])
assert 0 <= int(os.environ['LOCAL_RANK']) < int(os.environ['LOCAL_WORLD_SIZE']) <= 2
assert 0 <= int(os.environ['GROUP_RANK']) < int(os.environ['NNODES']) <= 2
assert int(os.environ['MASTER_PORT']) > 0 and os.environ['MASTER_ADDR']
assert os.path.isdir(os.environ['PENSTOCK_CHECKPOINT_DIR']) and os.path.isdir(os.environ['PENSTOCK_RUN_DIR'])
"""
        backend.launch(make_launch(backend, self.python(code), 2, generation=4, attempt=1, env=(("MINE", "yes"),)))
        assert wait_for_end(backend, "run-1").kind is ReportKind.FINISHED, output(backend, "run-1")
        assert output(backend, "run-1", "w1") == "1 2 1 job-of-run-1 w1 4 1 yes\n"

    def test_a_failure_comes_with_code_and_last_lines(self, backend: Backend) -> None:
        code = "import sys\nfor i in range(50): print('line', i)\nprint('the cause', file=sys.stderr)\nsys.exit(3)"
        backend.launch(make_launch(backend, self.python(code)))
        last = wait_for_end(backend, "run-1")
        assert (last.kind, last.code, last.reason) == (ReportKind.FAILED, 3, "exit")
        assert len(last.tail) == 20
        assert "the cause" in last.tail
        assert "line 49" in last.tail

    def test_one_failing_worker_ends_the_others(self, backend: Backend) -> None:
        code = f"import os, sys\nif os.environ['RANK'] == '1': sys.exit(4)\n{SLEEPER}"
        backend.launch(make_launch(backend, self.python(code), 3))
        last = wait_for_end(backend, "run-1")
        assert (last.kind, last.code) == (ReportKind.FAILED, 4)
        exits = {r.worker: r.reason for r in backend.reports("run-1", 0) if r.kind is ReportKind.WORKER_EXITED}
        assert exits == {"w0": "asked", "w1": "died", "w2": "asked"}

    def test_a_command_that_does_not_exist_is_a_failure(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, ("no-such-program", "--flag")))
        last = wait_for_end(backend, "run-1")
        assert (last.kind, last.code) == (ReportKind.FAILED, 127)
        assert "no-such-program" in last.tail[-1]

    def test_a_killed_worker_is_a_failure_by_signal(self, backend: Backend) -> None:
        code = f"import os, signal\nif os.environ['RANK'] == '1': os.kill(os.getpid(), signal.SIGKILL)\n{SLEEPER}"
        backend.launch(make_launch(backend, self.python(code), 2))
        last = wait_for_end(backend, "run-1")
        assert (last.kind, last.code, last.reason) == (ReportKind.FAILED, 137, "signal")
        exited = wait_for(backend, "run-1", ReportKind.WORKER_EXITED, worker="w1")
        assert (exited.code, exited.signal) == (137, 9)

    def test_a_silent_run_counts_as_hung(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.python(SLEEPER), hang_after_s=0.6))
        last = wait_for_end(backend, "run-1")
        assert (last.kind, last.reason) == (ReportKind.FAILED, "hang")
        assert "here" in last.tail
        told = [report.kind for report in backend.reports("run-1", 0)]
        assert told.index(ReportKind.STUCK) < told.index(ReportKind.WORKER_EXITED), "looked at before it is ended"

    def test_output_keeps_the_watchdog_quiet(self, backend: Backend) -> None:
        code = "import time\nfor i in range(12): print(i, flush=True); time.sleep(0.1)"
        backend.launch(make_launch(backend, self.python(code), hang_after_s=0.9))
        assert wait_for_end(backend, "run-1").kind is ReportKind.FINISHED

    # --- commands -------------------------------------------------------------------------------------------------

    def test_a_later_attempt_of_an_ended_run_goes_on_in_the_same_journal(self, backend: Backend) -> None:
        code = "import os; print('attempt', os.environ['PENSTOCK_ATTEMPT'])"
        backend.launch(make_launch(backend, self.python(code)))
        wait_for_end(backend, "run-1")
        first = backend.reports("run-1", 0)
        backend.launch(make_launch(backend, self.python(code), attempt=1))
        wait_for_end(backend, "run-1")
        assert [r.seq for r in backend.reports("run-1", 0)] == list(range(1, 2 * len(first) + 1))
        assert output(backend, "run-1", "w0") == "attempt 0\nattempt 1\n"

    def test_stop_gives_a_script_its_grace(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.python(CAREFUL), 2))
        for worker in ("w0", "w1"):
            wait_for_output(backend, "run-1", "here", worker)
        backend.stop("run-1", 10.0)
        last = wait_for_end(backend, "run-1")
        assert (last.kind, last.reason) == (ReportKind.FAILED, "stopped")
        assert output(backend, "run-1", "w0") == output(backend, "run-1", "w1") == "here\nsaving\nsaved\n"

    def test_stop_ends_those_who_do_not_listen(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.python(STUBBORN), grace_s=60.0))
        wait_for_output(backend, "run-1", "here")
        backend.stop("run-1", 60.0)
        backend.stop("run-1", 0.1)
        assert wait_for_end(backend, "run-1").reason == "stopped"
        assert wait_for(backend, "run-1", ReportKind.WORKER_EXITED).signal == signal.SIGKILL

    def test_a_shell_passes_the_signal_on(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, ("sh", "-c", f"{shlex.join(self.python(CAREFUL))}; true")))
        wait_for_output(backend, "run-1", "here")
        backend.stop("run-1", 10.0)
        wait_for_end(backend, "run-1")
        assert "saved" in output(backend, "run-1")

    def test_what_a_shell_runs_has_no_more_than_its_grace(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, ("sh", "-c", f"{shlex.join(self.python(STUBBORN))}; true")))
        wait_for_output(backend, "run-1", "here")
        backend.stop("run-1", 0.3)
        assert wait_for_end(backend, "run-1").reason == "stopped"

    def test_suspend_ends_a_plain_run_as_suspended(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.python("print('penstock: checkpointed step=5 path=/x')\n" + CAREFUL)))
        wait_for_output(backend, "run-1", "here")
        backend.suspend("run-1")
        last = wait_for_end(backend, "run-1")
        assert (last.kind, last.step) == (ReportKind.SUSPENDED, 5)
        assert "saved" in output(backend, "run-1")

    def test_resize_restarts_a_plain_run_in_the_new_width(self, backend: Backend) -> None:
        code = (
            "import os; print('width', os.environ['WORLD_SIZE'], os.environ['TORCHELASTIC_RESTART_COUNT'])\n" + CAREFUL
        )
        backend.launch(make_launch(backend, self.python(code), 1))
        wait_for_output(backend, "run-1", "here")
        backend.resize("run-1", workers_on(slots_of(backend)[:3]), 1)
        backend.resize("run-1", workers_on(slots_of(backend)[:3]), 1)
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

    def test_runs_can_be_forgotten_and_their_logs_stay(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.python("print('hello')")))
        wait_for_end(backend, "run-1")
        backend.forget("run-1")
        backend.forget("run-1")
        assert backend.runs() == ()
        assert output(backend, "run-1").endswith("[0] hello\n")

    # --- logs and usage -----------------------------------------------------------------------------------------------

    def test_logs_are_read_page_by_page(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.python("for i in range(1000): print('line', i)")))
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
        backend.launch(make_launch(backend, self.python("pass")))
        wait_for_end(backend, "run-1")
        with pytest.raises(InputError, match="run-1"):
            backend.reports("run-7", 0)
        with pytest.raises(InputError, match="w0"):
            backend.logs("run-1", "w7", 0, 10)
        with pytest.raises(InputError, match="run id"):
            backend.launch(make_launch(backend, self.python("pass"), run_id="../elsewhere"))

    def test_usage_counts_the_whole_tree(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.python(BUSY)))
        wait_for_output(backend, "run-1", "here")
        until(lambda: backend.usage("run-1").cpu_s > 0.5, "a busy child")
        assert backend.usage("run-1").cpu_percent > 0
        assert backend.usage("run-1").memory_bytes > 80_000_000
        until(lambda: "cpu_percent" in {curve.name for curve in backend.usage_curves("run-1")}, "a curve of it")
        backend.stop("run-1", 0.0)
        wait_for_end(backend, "run-1")
        assert backend.usage("run-1").memory_bytes == 0
