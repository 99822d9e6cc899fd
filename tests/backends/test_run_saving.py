"""A server whose agents cannot outlive it lets its runs save before it ends."""

from penstock.backends import Backend
from penstock.core import ReportKind
from penstock.serve.run_saving import save_runs
from tests.backends.watching import CAREFUL, make_launch, python, until, wait_for_end, wait_for_output


def test_every_run_saves_and_ends_and_says_so(local: Backend) -> None:
    for run_id in ("run-1", "run-2"):
        local.launch(make_launch(python(CAREFUL), run_id=run_id))
    for run_id in ("run-1", "run-2"):
        wait_for_output(local, run_id, "here")
    assert save_runs(local, 30.0) == []
    assert {wait_for_end(local, run_id).kind for run_id in ("run-1", "run-2")} == {ReportKind.SUSPENDED}


def test_one_that_does_not_end_in_time_is_named(local: Backend) -> None:
    local.launch(
        make_launch(
            python("import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(99)"),
            grace_s=60.0,
        )
    )
    wait_for_output(local, "run-1", "deaf")
    assert save_runs(local, 0.5) == ["run-1"]
    until(lambda: [run.alive for run in local.runs()] == [True], "it to live on")
