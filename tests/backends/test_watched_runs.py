"""An agent looks at its workers before it ends what hangs, and tells what they measure of themselves."""

import json
from pathlib import Path

from penstock.backends import Backend
from penstock.core import FailureReason, ReportKind
from tests.backends.test_bad_words import forger
from tests.backends.watching import SLEEPER, kinds, make_launch, output, python, until, wait_for, wait_for_end

_ELASTIC = """
import json, os, socket, threading, time
line = socket.socket(socket.AF_UNIX); line.connect(os.environ["PENSTOCK_AGENT"].removeprefix("unix:"))
me, secret = os.environ["PENSTOCK_WORKER"], open(os.environ["PENSTOCK_SECRET_FILE"]).read()
def say(**message): line.sendall(json.dumps(message).encode() + b"\\n")
say(type="hello", worker=me, pid=os.getpid(), elastic=True, version=1, secret=secret)
say(type="ready", generation=0)
for order in map(json.loads, line.makefile("rb")):
    if order["type"] == "world" and order["rank"] == 0:
        say(type="met", generation=0); say(type="joined", generation=0)
    if order["type"] == "take_stacks" and me != "w2":
        inner = "load_batch" if me == "w1" else "all_reduce"
        frames = [{"file": "/job/train.py", "line": 41, "function": "main"}]
        frames += [{"file": "/lib/python3.12/x.py" if me == "w0" else "/job/data.py", "line": 7, "function": inner}]
        say(type="stacks", look=order["look"], threads=[{"name": "MainThread", "frames": frames, "is_main": True}])
"""


def test_a_plain_run_that_hangs_is_looked_at_before_it_is_ended(local: Backend, state_dir: Path) -> None:
    local.launch(make_launch(python(SLEEPER), hang_after_s=0.5))
    end = wait_for_end(local, "run-1")
    assert (end.kind, end.code, end.reason) == (ReportKind.FAILED, 124, FailureReason.HANG)
    told = kinds(local.reports("run-1", 0))
    assert told.index(ReportKind.STUCK) < told.index(ReportKind.WORKER_EXITED)
    stuck = wait_for(local, "run-1", ReportKind.STUCK)
    assert "worker w0 " in str(stuck.reason)
    assert end.tail[-1] in str(stuck.reason)
    assert Path(str(stuck.path)) == state_dir / "runs" / "run-1" / "stacks" / "1"
    assert (Path(str(stuck.path)) / "w0.txt").read_text()
    seen = local.watched("run-1")
    assert seen is not None
    assert seen.stacks == stuck.path


def test_elastic_workers_say_what_they_do_and_who_does_not_answer_is_named(local: Backend) -> None:
    local.launch(make_launch(python(_ELASTIC), 3, hang_after_s=1.0, grace_s=0.2))
    end = wait_for_end(local, "run-1")
    assert end.reason == FailureReason.HANG
    assert "worker w0 waits in all_reduce (train.py:41)" in end.tail[-1]
    assert "worker w1 is in load_batch (data.py:7)" in end.tail[-1]
    assert "worker w2 does not answer: native code holds its interpreter" in end.tail[-1]
    stuck = Path(str(wait_for(local, "run-1", ReportKind.STUCK).path))
    assert 'File "/job/data.py", line 7, in load_batch' in (stuck / "w1.txt").read_text()
    assert "no sign of life for" in output(local, "run-1")


def test_what_workers_measure_and_lose_is_told_and_kept(local: Backend) -> None:
    spots = {
        "step": 5, "steps": 3, "device": "cpu", "step_s": 1.0, "input_s": 0.1, "host_s": 0.2, "kernels_s": 0.6,
        "communication_s": 0.1, "checkpoint_s": 0.0, "cost": 0.001, "operators": [],
    }  # fmt: skip
    times = {"step": 9, "steps": 5, "step_s": 1.0, "compute_s": 0.8, "input_s": 0.1, "wait_s": 0.1, "samples": 4.0}
    said = [
        {"type": "hotspots", "hotspots": spots},
        {"type": "times", "times": times},
        {"type": "times", "times": {**times, "step_s": -1.0}},
        {"type": "rolled_back", "step": 30, "skips": 39, "until": 40, "fault": "not_finite", "reason": "it is NaN"},
        *({"type": "loss_wrong", "step": 50, "fault": "spike", "reason": "too high"} for _ in range(100)),
    ]
    local.launch(make_launch(forger(1, "\n".join(map(json.dumps, said)), "import time; time.sleep(600)")))
    back = wait_for(local, "run-1", ReportKind.ROLLED_BACK)
    assert back.reason == "it is NaN: training went back to step 30 and passes over the batches of steps 39 to 40"
    until(lambda: kinds(local.reports("run-1", 0)).count(ReportKind.LOSS_WRONG) == 30, "as much as is believed")
    assert "a times that cannot be read" in str(wait_for(local, "run-1", ReportKind.NONSENSE).reason)
    local.stop("run-1", 0.0)
    wait_for_end(local, "run-1")
    assert kinds(local.reports("run-1", 0)).count(ReportKind.LOSS_WRONG) == 30
    seen = local.watched("run-1")
    assert seen is not None
    assert seen.hotspots is not None
    assert (seen.hotspots.kernels_s, seen.workers[0].worker, seen.workers[0].times.wait_s) == (0.6, "w0", 0.1)
    assert local.watched("run-2") is None
