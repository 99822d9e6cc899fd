"""The local backend keeps every promise of a backend, and leaves no process behind on its machine."""

import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from penstock.backends import Backend, Inventory, LocalBackend, LocalDevice
from penstock.backends.testing import ProcessConformance
from penstock.core import AgentAddress, ReportKind
from tests.backends.watching import make_launch, status, wait_for, wait_for_end, wait_for_output, workers

DEVICES = tuple(LocalDevice(kind=kind, id=f"{kind}-{i}") for kind in ("fake", "other") for i in range(4))

PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])
away = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)
print('children', child.pid, away.pid, flush=True)
time.sleep(600 if sys.argv[1] == 'stay' else 0)
sys.exit(3 if sys.argv[1] == 'fail' else 0)
"""


class TestLocalBackend(ProcessConformance):
    """On two nodes: the devices of each kind are one."""

    @pytest.fixture
    def opened(self, state_dir: Path) -> Callable[[], Backend]:
        return lambda: LocalBackend(state_dir, Inventory(DEVICES, "local"))


class TestLocalBackendOverTcp(TestLocalBackend):
    @pytest.fixture
    def opened(self, state_dir: Path) -> Callable[[], Backend]:
        listen = AgentAddress.parse("tcp://127.0.0.1:0")
        return lambda: LocalBackend(state_dir, Inventory(DEVICES, "local"), listen=listen)


@pytest.mark.parametrize("how", ["stay", "fail", "finish"])
def test_children_and_their_runaways_end_with_the_run(local: Backend, how: str) -> None:
    local.launch(make_launch((sys.executable, "-c", PARENT, how)))
    line = wait_for_output(local, "run-1", "children")
    children = [int(word) for word in line.split("children", 1)[1].split()[:2]]
    if how == "stay":
        local.stop("run-1", 0.2)
    wait_for_end(local, "run-1")
    assert [pid for pid in children if psutil.pid_exists(pid)] == []


def test_children_and_their_runaways_end_with_their_world(local: Backend) -> None:
    local.launch(make_launch((sys.executable, "-c", PARENT, "stay")))
    line = wait_for_output(local, "run-1", "children")
    children = [int(word) for word in line.split("children", 1)[1].split()[:2]]
    local.resize("run-1", workers(2), 1)
    wait_for(local, "run-1", ReportKind.RESIZED)
    assert [pid for pid in children if psutil.pid_exists(pid)] == []
    assert status(local, "run-1").alive
    local.stop("run-1", 0.2)
    wait_for_end(local, "run-1")
