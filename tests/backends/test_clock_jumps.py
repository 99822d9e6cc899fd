"""The wall clock may be set forward or back under a run: nothing is lost, out of order, or taken for a hang."""

import itertools
import sys
import time
from pathlib import Path

import pytest

from penstock.backends import Backend, LocalBackend, fake_devices
from penstock.core import ReportKind
from tests.backends.watching import make_launch, status, wait_for, wait_for_end, workers
from tests.tools.wall_clock import WallClock

COMMAND = (sys.executable, str(Path(__file__).with_name("elastic_worker.py")))
HOUR = 3600.0


@pytest.fixture
def wall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WallClock:
    directory = tmp_path / "clock"
    directory.mkdir()
    return WallClock(directory, monkeypatch)


@pytest.fixture
def local(state_dir: Path) -> Backend:
    """Its agents look at the clock on the wall."""
    return LocalBackend(state_dir, fake_devices(8), pass_environment=["FAKE_CLOCK"])


def test_reports_keep_their_order_whatever_the_clock_does(local: Backend, wall: WallClock) -> None:
    local.launch(make_launch(COMMAND, 1))
    before = wait_for(local, "run-1", ReportKind.PROGRESS).at
    for number, offset in enumerate((-HOUR, 5 * HOUR, -2 * HOUR, 0.0), start=1):
        wall.jump(offset)
        local.resize("run-1", workers(1 + number % 2), number)
        resized = wait_for(local, "run-1", ReportKind.RESIZED, generation=number)
        assert resized.pause_s == 0.01
        wait_for(local, "run-1", ReportKind.PROGRESS, generation=number)
    reports = local.reports("run-1", 0)
    assert [report.seq for report in reports] == list(range(1, len(reports) + 1))
    assert all(one.at <= other.at for one, other in itertools.pairwise(reports))
    assert reports[-1].at < before + HOUR, "nothing is dated by a glitch"


def test_an_agent_that_starts_in_a_glitch_tells_the_servers_time(local: Backend, wall: WallClock) -> None:
    wall.jump(365 * 24 * HOUR)
    local.launch(make_launch(("true",)))
    assert abs(wait_for_end(local, "run-1").at - time.time()) < HOUR


def test_a_later_agent_does_not_report_from_the_past(local: Backend, wall: WallClock) -> None:
    wall.jump(HOUR)
    local.launch(make_launch(("true",)))
    last = wait_for_end(local, "run-1")
    wall.jump(0.0)
    local.launch(make_launch(("true",), attempt=1))
    assert wait_for_end(local, "run-1").at >= last.at


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_the_watchdog_does_not_look_at_the_wall(local: Backend, wall: WallClock, jump: float) -> None:
    """A run that talks is not hung after a jump; one that is silent is, although the clock went back."""
    talker = "import time\nwhile True: print('still here', flush=True); time.sleep(0.05)"
    local.launch(make_launch((sys.executable, "-c", talker), run_id="talks", hang_after_s=1.5))
    local.launch(make_launch((sys.executable, "-c", "import time; time.sleep(600)"), hang_after_s=1.5))
    wait_for(local, "run-1", ReportKind.WORKER_STARTED)
    wall.jump(jump)
    assert wait_for_end(local, "run-1").reason == "hang"
    assert status(local, "talks").alive
