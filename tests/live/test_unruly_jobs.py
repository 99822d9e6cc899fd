"""A real server and jobs that misbehave: nobody else waits for them, and none is charged for what it did not do."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.live.site import OVER, Site, until
from tests.tools.wall_clock import WallClock

_DAY, _YEAR = 86400.0, 365 * 86400.0

_DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
_ROBBER = "import os, shutil, time; shutil.rmtree(os.environ['PENSTOCK_RUN_DIR']); time.sleep(600)"
_LOUD = "import time; print('penstock: step=' + '9' * 400 + ' total=1', flush=True); time.sleep(600)"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path, slots=5)
    yield found
    found.close()


def submit(site: Site, command: Any, **more: Any) -> str:
    spec = {
        "command": command, "work": "10 steps", "devices": 1, "profile": "never",
        "environment": {"working_dir": str(site.folder)}, **more,
    }  # fmt: skip
    return site.ask(lambda client: client.submit(spec)).job.id


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def state_of(site: Site, job_id: str) -> str:
    return site.ask(lambda client: client.job(job_id)).state


def agents_of(site: Site, jobs: list[str]) -> list[int]:
    return [pid for run_id, pid in site.agents() if run_id.rpartition(".")[0] in jobs]


def test_stopped_agents_delay_nobody_and_are_ended(site: Site) -> None:
    stuck = [submit(site, python(_DEAF), grace="1s") for _ in range(3)]
    until(lambda: len(agents_of(site, stuck)) == 3 and len(site.workers()) == 3, "three runs")
    for pid in agents_of(site, stuck):
        os.kill(pid, signal.SIGSTOP)
    for job_id in stuck:
        site.ask(lambda client, job_id=job_id: client.cancel(job_id))
    began = time.monotonic()
    quick = submit(site, ["true"])
    until(lambda: state_of(site, quick) in OVER, "a job beside stopped agents")
    assert state_of(site, quick) == "finished"
    assert time.monotonic() - began < 12.0
    until(lambda: not agents_of(site, stuck) and not site.workers(), "the end of the stopped runs")


def test_the_grace_of_a_cancelled_job_is_its_own(site: Site) -> None:
    deaf = submit(site, python(_DEAF), grace="1s")
    until(site.workers, "its worker")
    began = time.monotonic()
    site.ask(lambda client: client.cancel(deaf))
    until(lambda: not site.workers(), "its end", within_s=60.0)
    assert time.monotonic() - began < 15.0


def test_one_line_of_output_stops_nobody(site: Site) -> None:
    loud = submit(site, python(_LOUD))
    until(site.workers, "its worker")
    quick = submit(site, ["true"])
    until(lambda: state_of(site, quick) == "finished", "a job beside it")
    story = until(
        lambda: [n.text for n in site.ask(lambda c: c.why(loud)).entries if "without a step" in n.text], "why"
    )
    assert "ignored" in story[0]
    assert state_of(site, loud) == "running"


def test_a_job_that_deletes_its_directory_fails_for_a_clear_reason(site: Site) -> None:
    robber = submit(site, python(_ROBBER), retries=0)
    until(lambda: state_of(site, robber) in OVER, "its end")
    job = site.ask(lambda client: client.job(robber))
    assert (job.state, job.failures, job.run_id) == ("failed", 1, f"{robber}.1")
    assert "its directory may have been deleted (its run was gone)" in job.reason
    until(lambda: not [p for p in site.processes() if _ROBBER in p.cmdline()], "the end of its processes")


def test_a_server_killed_between_launch_and_start_loses_nothing(site: Site) -> None:
    warm = submit(site, ["true"])
    until(lambda: state_of(site, warm) == "finished", "a first job")
    zygote = next(p for p in site.processes() if "penstock.backends.runs.agent_zygote" in p.cmdline())
    zygote.suspend()
    job_id = submit(site, ["true"], retries=0)
    until((site.data / "runs" / f"{job_id}.1" / "launch.json").exists, "the launch")
    site.kill_server()
    zygote.kill()
    psutil.wait_procs([zygote], timeout=10)
    assert not (site.data / "runs" / f"{job_id}.1" / "agent.json").exists()
    until(lambda: state_of(site, job_id) in OVER, "the job after the crash")
    job = site.ask(lambda client: client.job(job_id))
    assert (job.state, job.failures) == ("finished", 0)


def test_an_enormous_job_breaks_no_list(site: Site) -> None:
    submit(site, ["true"], work="900_000_000_000 steps", deadline="1h")
    submit(site, ["sleep", "60"], work="900_000_000_000 steps")
    for _ in range(2):
        client = site.start()
        assert len(client.jobs().jobs) == 2
        assert client.overview()
        assert client.events().events
        site.kill_server()


def test_a_clock_that_goes_mad_for_a_while_dates_nothing(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "clock").mkdir()
    wall = WallClock(tmp_path / "clock", monkeypatch)
    wall.jump(0.0)
    first = submit(site, ["true"], deadline="1h")
    until(lambda: state_of(site, first) in OVER, "a job before")
    wall.jump(_YEAR)
    during = submit(site, ["true"], deadline="1h")
    until(lambda: state_of(site, during) in OVER, "a job during the glitch")
    site.kill_server()
    in_glitch = submit(site, ["true"], deadline="1h")
    until(lambda: state_of(site, in_glitch) in OVER, "a job of a server that was started during the glitch")
    wall.jump(0.0)
    after = submit(site, ["true"], deadline="1h")
    until(lambda: state_of(site, after) in OVER, "a job after the glitch")
    for job_id in (first, during, in_glitch, after):
        job = site.ask(lambda client, job_id=job_id: client.job(job_id))
        assert job.state == "finished"
        assert job.ended_at is not None
        assert abs(job.submitted_at.timestamp() - time.time()) < _DAY
        assert abs(job.ended_at.timestamp() - time.time()) < _DAY
    assert all(abs(event.at.timestamp() - time.time()) < _DAY for event in site.events())


def test_members_of_an_array_find_their_index(site: Site) -> None:
    told = "import os; print('index', os.environ['PENSTOCK_ARRAY_INDEX'])"
    spec = {
        "name": "sweep", "command": python(told), "work": 1, "devices": 1, "profile": "never",
        "environment": {"working_dir": str(site.folder)},
    }  # fmt: skip
    answer = site.ask(lambda client: client.submit_array(spec, "1..6"))
    until(lambda: all(state_of(site, job_id) == "finished" for job_id in answer.jobs), "all members")
    texts = [site.ask(lambda client, job_id=job_id: client.logs(job_id)).text for job_id in answer.jobs]
    assert [text.strip() for text in texts] == [f"[0] index {index}" for index in range(1, 7)]
