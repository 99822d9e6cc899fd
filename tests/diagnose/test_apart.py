"""A diagnosis is made in a process of its own, which is ended when it has used up what it may."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from penstock.diagnose import Examination, RunFacts, examined, examined_apart
from penstock.diagnose.apart import Budget
from tests.control.serving import until

ENDLESS = """
[[signature]]
id = "own.endless"
category = "mem.gpu_oom"
regex = 'endless pattern (\\w+\\s?)*;'
example = "endless pattern a;"
"""
"""A pattern that takes exponential time where the last character is missing."""
OUT_OF_MEMORY = b"[0] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


@pytest.fixture
def endless(tmp_path: Path) -> Examination:
    (tmp_path / "signatures.toml").write_text(ENDLESS)
    return Examination(log=b"endless pattern " + b"a" * 60 + b"!\n", facts=RunFacts(), data_dir=str(tmp_path))


def test_it_finds_what_would_be_found_here() -> None:
    given = Examination(log=b"fine\n" * 1000 + OUT_OF_MEMORY, facts=RunFacts(events=("the run gave no sign of life",)))
    assert examined_apart(given) == examined(given)


def test_what_takes_too_long_is_ended_and_says_so(endless: Examination) -> None:
    found = examined_apart(endless, Budget(processor_s=1))
    assert "more than its 1 s of processor time and was stopped" in found.cause
    assert not found.known
    assert not found.would_recur
    found = examined_apart(endless, Budget(wall_s=0.5))
    assert "more than its 0.5 s and was stopped" in found.cause


def test_what_needs_too_much_memory_is_ended_and_says_so() -> None:
    given = Examination(log=bytes(200 << 20), facts=RunFacts())
    found = examined_apart(given, Budget(memory_bytes=256 << 20))
    assert "more than its 256 MiB of memory and was stopped" in found.cause


PARENT = """
import sys
from penstock.diagnose import Examination, RunFacts, examined_apart
examined_apart(Examination(log=b"endless pattern " + b"a" * 60 + b"!", facts=RunFacts(), data_dir=sys.argv[1]))
"""


def test_it_does_not_outlive_the_server(endless: Examination) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, str(endless.data_dir)]) as server:
        child = until(lambda: psutil.Process(server.pid).children(), "the diagnosis")[0]
        until(lambda: b"penstock.diagnose.apart" in " ".join(child.cmdline()).encode(), "the program")
        until(lambda: child.cpu_times().user > 0.3, "the diagnosis to be busy")
        os.kill(server.pid, signal.SIGKILL)
        server.wait()
    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "the end of the diagnosis")
