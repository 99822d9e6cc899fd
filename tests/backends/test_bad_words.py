"""What workers and their output say is checked by the agent: nonsense is ignored, told in the run's log and ended."""

import json
import sys
from pathlib import Path

from penstock.backends import Backend, LocalBackend, fake_devices
from penstock.backends.agent.report_journal import ReportJournalReader, last_report
from penstock.core import ReportKind
from tests.backends.watching import kinds, make_launch, output, python, wait_for, wait_for_end

_SAY = """
import json, os, socket, sys
line = socket.socket(socket.AF_UNIX); line.connect(os.environ["PENSTOCK_AGENT"].removeprefix("unix:"))
secret = open(os.environ["PENSTOCK_SECRET_FILE"]).read()
hello = {"type": "hello", "worker": "w0", "pid": os.getpid(), "elastic": False, "version": 1, "secret": secret}
line.sendall(json.dumps(hello).encode() + b"\\n")
for _ in range(int(sys.argv[1])):
    line.sendall(sys.argv[2].encode() + b"\\n")
"""


def forger(times: int, message: str, then: str = "") -> tuple[str, ...]:
    return python(_SAY + then, str(times), message)


def test_an_enormous_step_is_ignored_and_told(local: Backend) -> None:
    command = (sys.executable, "-c", "print('penstock: step=' + '9' * 400 + ' total=1'); print('penstock: step=3')")
    local.launch(make_launch(command))
    assert wait_for_end(local, "run-1").kind is ReportKind.FINISHED
    assert [report.step for report in local.reports("run-1", 0) if report.kind is ReportKind.PROGRESS] == [3]
    told = wait_for(local, "run-1", ReportKind.NONSENSE)
    assert "without a step from 0 to" in str(told.reason)
    assert "penstock: ignored what worker w0 said" in output(local, "run-1")


def test_a_message_with_a_word_for_a_step_is_ignored_and_told(local: Backend) -> None:
    local.launch(make_launch(forger(1, json.dumps({"type": "checkpoint_failed", "step": "abc"}))))
    assert wait_for_end(local, "run-1").kind is ReportKind.FINISHED
    assert ReportKind.CHECKPOINT_FAILED not in kinds(local.reports("run-1", 0))
    assert "checkpoint_failed that cannot be read" in str(wait_for(local, "run-1", ReportKind.NONSENSE).reason)


def test_a_run_that_only_talks_nonsense_is_ended(local: Backend) -> None:
    endless = "\nimport time\ntime.sleep(600)"
    local.launch(make_launch(forger(2000, '{"type": "checkpointed", "step": -1}', endless), grace_s=0.5))
    end = wait_for_end(local, "run-1")
    assert (end.kind, end.reason) == (ReportKind.FAILED, "nonsense")
    assert kinds(local.reports("run-1", 0)).count(ReportKind.NONSENSE) == 4


def test_reports_that_a_job_wrote_itself_disturb_no_other_run(state_dir: Path) -> None:
    local = LocalBackend(state_dir, fake_devices(8))
    local.launch(make_launch(python("pass"), run_id="mad"))
    local.launch(make_launch(python("print('penstock: step=7')"), run_id="sane"))
    wait_for_end(local, "mad")
    with (state_dir / "runs" / "mad" / "reports.jsonl").open("a") as file:
        file.write('{"seq": "many", "at": []}\n')
    assert wait_for_end(local, "sane").kind is ReportKind.FINISHED
    told = wait_for(local, "mad", ReportKind.NONSENSE)
    assert "cannot be read" in str(told.reason)
    assert {status.run_id for status in local.runs()} == {"mad", "sane"}
    fresh = LocalBackend(state_dir, fake_devices(8))
    assert [report.seq for report in fresh.reports("mad", 0)] == list(range(1, len(fresh.reports("mad", 0)) + 1))


def test_damaged_lines_count_and_hide_nothing(tmp_path: Path) -> None:
    path = tmp_path / "reports.jsonl"
    good = [b'{"seq": 1, "at": 1.0, "kind": "launched"}\n', b'{"seq": 3, "at": 2.0, "kind": "finished", "code": 0}\n']
    bad = b"[" * 100_000 + b"\n"
    path.write_bytes(good[0] + bad + good[1])
    reports = ReportJournalReader(path, "r").after(0)
    assert [report.kind for report in reports] == [ReportKind.LAUNCHED, ReportKind.NONSENSE, ReportKind.FINISHED]
    path.write_bytes(good[0] + b'{"seq": 2, "at": 1.0, "kind": "progress", "step": 1' + b"0" * 400 + b"}\n")
    assert last_report(path, "r")[0] == 2
    assert [report.kind for report in ReportJournalReader(path, "r").after(1)] == [ReportKind.NONSENSE]
