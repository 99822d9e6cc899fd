"""A run of tests leaves no process behind, whether it ends, is interrupted, or is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.packaging.building import CHECKOUT
from tests.tools.processes import GRACE, MARK

HOOKS = "tests.tools.run_hooks"

LEAVING = """
import os, subprocess, sys, time
from pathlib import Path

def test_that_leaves_a_detached_process():
    orphan = "import subprocess, sys; subprocess.Popen(['sleep', '3600'], start_new_session=True)"
    subprocess.run([sys.executable, "-W", "ignore", "-c", orphan])
    detached = subprocess.Popen(["sh", "-c", "trap '' TERM; while true; do sleep 0.1; done"], start_new_session=True)
    Path("started").write_text(str(detached.pid))
    time.sleep({seconds})
    detached.returncode = 0
"""
DEAF = """
import signal

def test_interrupts_are_heard():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


def start(folder: Path, code: str, *options: str, deaf: bool = False) -> "subprocess.Popen[str]":
    """A run of its own, with the hooks that this run has and no plugins that it does not need."""
    (folder / "test_inner.py").write_text(code)
    command = [sys.executable, "-m", "pytest", "-q", "-p", HOOKS, "--rootdir", str(folder), *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", MARK))}
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", GRACE: "0.3"}
    shell = "trap '' INT; exec \"$@\"" if deaf else 'exec "$@"'
    return subprocess.Popen(
        ["sh", "-c", shell, "sh", *command], cwd=folder, text=True,
        env={**environment, "PYTHONPATH": str(CHECKOUT), "OF": str(folder)}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip


def below(folder: Path) -> list[psutil.Process]:
    """Whatever the inner run started and still lives."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("OF") == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_until_gone(folder: Path) -> None:
    deadline = time.monotonic() + 120
    while left := below(folder):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


@pytest.mark.parametrize("options", [(), ("-p", "xdist", "-n", "1")], ids=["alone", "xdist"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_leaves_nothing(number: signal.Signals, options: tuple[str, ...], tmp_path: Path) -> None:
    with start(tmp_path, LEAVING.format(seconds=3600), *options) as run:
        while not (tmp_path / "started").exists():
            assert run.poll() is None, run.communicate()
            time.sleep(0.1)
        run.send_signal(number)
        run.wait(120)
        wait_until_gone(tmp_path)


def test_this_run_has_the_hooks(request: pytest.FixtureRequest) -> None:
    assert request.config.pluginmanager.has_plugin(HOOKS)
    assert MARK in os.environ


def test_a_run_that_ends_leaves_nothing(tmp_path: Path) -> None:
    with start(tmp_path, LEAVING.format(seconds=0)) as run:
        said, _ = run.communicate(timeout=120)
    assert run.returncode == 0, said
    wait_until_gone(tmp_path)


def test_a_run_in_the_background_of_a_shell_hears_interrupts(tmp_path: Path) -> None:
    with start(tmp_path, DEAF, deaf=True) as run:
        said, _ = run.communicate(timeout=120)
    assert run.returncode == 0, said
