"""Limits of memory and processors: enforced by the kernel where it lets us, and told where it does not."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from penstock.backends import Backend, LocalBackend
from penstock.backends.agent.control_groups import ControlGroup, end_groups
from penstock.core import ReportKind, ResourceLimits
from tests.backends.watching import make_launch, output, python, until, wait_for, wait_for_end, wait_for_output
from tests.tools import needs

LIMITS = ResourceLimits(memory_bytes=96 << 20, cpus=0.5)


def permitted() -> bool:
    group = ControlGroup.create(f"penstock-probe-{os.getpid()}", LIMITS)
    if group is not None:
        group.end()
    return group is not None


real = pytest.mark.skipif(
    not permitted(),
    reason=needs.reason("this user may make no control groups", f"{needs.ROOT}, with a writable /sys/fs/cgroup"),
)


@pytest.fixture
def group() -> Iterator[ControlGroup]:
    found = ControlGroup.create(f"penstock-test-{os.getpid()}", LIMITS)
    assert found is not None
    yield found
    found.end()


def run_in(group: ControlGroup, *command: str) -> int:
    return subprocess.run(command, check=False, preexec_fn=group.enter, timeout=60).returncode


def is_left(name: str) -> bool:
    """Whether any hierarchy has a group of this name; other groups come and go meanwhile."""
    return any(name in folders for _, folders, _ in os.walk("/sys/fs/cgroup"))


@real
def test_memory_beyond_the_limit_ends_a_process_and_is_known(group: ControlGroup) -> None:
    assert run_in(group, sys.executable, "-c", "bytearray(8 << 20)") == 0
    assert not group.ran_out_of_memory()
    assert run_in(group, sys.executable, "-c", "bytearray(400 << 20)") == -9
    assert group.ran_out_of_memory()
    assert not group.ran_out_of_memory(), "once"
    assert group.memory_peak is not None
    assert 16 << 20 < group.memory_peak <= 96 << 20


@real
def test_whoever_hides_in_a_session_of_its_own_is_found_and_ended(group: ControlGroup) -> None:
    assert run_in(group, "sh", "-c", "env -i setsid sleep 600 & exit 0") == 0
    (hidden,) = group.pids()
    group.end()
    assert group.pids() == []
    until(lambda: not psutil.pid_exists(hidden) or psutil.Process(hidden).status() == "zombie", "its end")


@real
def test_what_an_agent_that_was_killed_has_left_is_ended_by_its_name() -> None:
    name = f"penstock-left-{os.getpid()}"
    left = ControlGroup.create(f"{name}-7", LIMITS)
    assert left is not None
    run_in(left, "sh", "-c", "env -i setsid sleep 600 & exit 0")
    end_groups(f"{name}-")
    assert left.pids() == []
    assert not is_left(f"{name}-7")
    left.end()


@real
def test_a_run_that_needs_too_much_says_so_and_one_that_does_not_ends_well(local: Backend) -> None:
    greedy = "print('begun', flush=True); x = bytearray(400 << 20); print('too much')"
    launch = replace(make_launch(python(greedy)), limits=ResourceLimits(memory_bytes=96 << 20, cpus=1.0))
    local.launch(launch)
    told = wait_for_end(local, launch.run_id)
    assert (told.kind, told.code) == (ReportKind.FAILED, 137)
    assert told.reason == "out of memory: its processes reached the limit of 100.7MB (limits.memory for 1 device)"
    assert "too much" not in output(local, launch.run_id)
    wide = replace(make_launch(python("bytearray(120 << 20)"), 2, "run-2"), limits=ResourceLimits(memory_bytes=2**28))
    local.launch(wide)
    assert wait_for_end(local, "run-2").kind is ReportKind.FINISHED, "two devices have twice as much"


@real
def test_usage_tells_the_limit_and_nothing_of_the_group_is_left(local: Backend) -> None:
    launch = replace(
        make_launch(python("import time; print('there', flush=True); time.sleep(600)")),
        limits=ResourceLimits(memory_bytes=512 << 20),
    )
    local.launch(launch)
    wait_for_output(local, launch.run_id, "there")
    used = local.usage(launch.run_id)
    assert used.memory_limit_bytes == 512 << 20
    assert used.memory_peak_bytes is not None
    assert 0 < used.memory_peak_bytes <= 512 << 20
    pid = wait_for(local, launch.run_id, ReportKind.WORKER_STARTED).pid
    group = next(line for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines() if "penstock-" in line)
    local.stop(launch.run_id, 5.0)
    wait_for_end(local, launch.run_id)
    assert not is_left(group.rpartition("/")[2])


def fake_machine(folder: Path, *, delegated: bool, files: tuple[str, ...]) -> Path:
    """A /proc/self of a machine with version 2, whose groups are directories with ``files`` where it is delegated."""
    mount, proc = folder / "cgroup", folder / "proc"
    own = mount / "user" / "session"
    own.mkdir(parents=True)
    proc.mkdir()
    (proc / "cgroup").write_text("0::/user/session\n")
    (proc / "mountinfo").write_text(f"30 23 0:26 / {mount} rw,nosuid - cgroup2 cgroup2 rw\n")
    (own / "cgroup.subtree_control").touch()
    (own.parent / "cgroup.subtree_control").touch()
    group = (own if delegated else own.parent) / "penstock-x"
    group.mkdir()
    for name in files:
        (group / name).touch()
    return proc


@pytest.mark.parametrize("delegated", [True, False])
def test_version_two_below_our_own_group_or_beside_it(tmp_path: Path, delegated: bool) -> None:
    files = ("cgroup.procs", "memory.max", "cpu.max", "memory.events")
    proc = fake_machine(tmp_path, delegated=delegated, files=files)
    group = ControlGroup.create("penstock-x", LIMITS, proc)
    assert group is not None
    place = tmp_path / "cgroup" / "user" / ("session/penstock-x" if delegated else "penstock-x")
    assert (place / "memory.max").read_text() == str(96 << 20)
    assert (place / "cpu.max").read_text() == "50000 100000"
    (place / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    assert group.ran_out_of_memory()
    group.admit(4711)
    assert group.pids() == [4711]
    group.limit(LIMITS.of(2))
    assert (place / "cpu.max").read_text() == "100000 100000"
    (place / "memory.current").write_text(str(150 << 20))
    group.limit(LIMITS)
    assert (place / "memory.max").read_text() == str(192 << 20), "it would have killed somebody"
    (place / "cgroup.procs").write_text("")
    group.end()


def test_where_nobody_may_make_groups_there_is_none(tmp_path: Path, local: Backend) -> None:
    proc = fake_machine(tmp_path, delegated=True, files=("cgroup.procs",))
    assert ControlGroup.create("penstock-x", LIMITS, proc) is None
    assert ControlGroup.create("penstock-x", LIMITS, tmp_path / "nothing") is None
    assert ControlGroup.create("penstock-x", ResourceLimits()) is None


@real
def test_a_command_beside_the_workers_counts_as_one_of_them(local: LocalBackend) -> None:
    local.launch(replace(make_launch(python("import time; print('here', flush=True); time.sleep(600)")), limits=LIMITS))
    wait_for_output(local, "run-1", "here")
    around = local.run_environment("run-1")
    assert around is not None
    program, order = around.side_command(["cat", "/proc/self/cgroup"], terminal=False)
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as command:
        assert command.stdin is not None
        assert command.stdout is not None
        command.stdin.write(order)
        command.stdin.flush()
        groups = command.stdout.read().decode()
        assert command.wait() == 0
    worker = wait_for(local, "run-1", ReportKind.WORKER_STARTED).pid
    assert "penstock-" in groups
    assert groups == Path(f"/proc/{worker}/cgroup").read_text()
    local.stop("run-1", 0.0)
    wait_for_end(local, "run-1")
