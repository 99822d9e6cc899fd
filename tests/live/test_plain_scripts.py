"""A real server and scripts that know nothing of it: nothing they did is thrown away, and nothing is made up."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.site import OVER, Site, until

_NEVER_SAVES = """
import time
for step in range(1, 11):
    time.sleep(1.0)
    print(f"penstock: step={step} total=10", flush=True)
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path, slots=2)
    yield found
    found.close()


def submit(site: Site, code: str, **more: object) -> str:
    where = {"working_dir": str(site.folder)}
    spec = {"command": [sys.executable, "-c", code], "work": "10 steps", "environment": where, **more}
    return site.ask(lambda client: client.submit(spec)).job.id


def state_of(site: Site, job_id: str) -> str:
    return site.ask(lambda client: client.job(job_id)).state


def test_a_script_that_never_saves_runs_once_beside_short_jobs(site: Site) -> None:
    plain = submit(site, _NEVER_SAVES, name="plain", deadline="2m")
    until(lambda: any(worker.run_id.startswith(plain) for worker in site.workers()), "its start")
    short: list[str] = []
    while state_of(site, plain) not in OVER:
        if not short or state_of(site, short[-1]) in OVER:
            short.append(submit(site, "import time; time.sleep(0.5)", devices=1, work="5 steps"))
        time.sleep(0.5)
    told = site.ask(lambda client: client.why(plain)).entries
    assert state_of(site, plain) == "finished", told
    launched = [event for event in site.events() if event.kind == "Launched" and event.job_id == plain]
    assert len(launched) == 1, told
    assert len(short) >= 1


def test_a_silent_script_is_not_stopped_on_a_guess_and_teaches_how_long_it_took(site: Site) -> None:
    """By the guess, a step a second, a thousand steps end long after the deadline."""
    code, more = "import time; time.sleep(8.0)", {"work": "1000 steps", "deadline": "2m", "devices": 1}
    job = submit(site, code, name="silent", **more)
    detail = site.ask(lambda client: client.job(job))
    assert detail.quote is not None
    assert (detail.quote.verdict, detail.quote.speed, detail.expected_at) == ("deferred", "guessed", None)
    assert "not known yet" in detail.quote.reason
    until(site.workers, "its start")
    submit(site, "pass", devices=1, work="5 steps")
    until(lambda: state_of(site, job) in OVER, "its end")
    assert state_of(site, job) == "finished"
    spec = {"command": [sys.executable, "-c", code], "environment": {"working_dir": str(site.folder)}, **more}
    known = site.ask(lambda client: client.quote(spec))
    assert known.verdict == "promised"
    assert known.speed != "guessed"
    assert 4.0 < known.device_seconds < 60.0


def test_the_only_node_may_be_drained_under_a_job_and_submissions_are_taken_meanwhile(site: Site) -> None:
    saving = _NEVER_SAVES.replace("total=10", "total=10\\npenstock: checkpointed step={step}")
    running = submit(site, saving, name="there")
    until(lambda: site.ask(lambda client: client.job(running)).resumable, "its first checkpoint")
    (node,) = site.ask(lambda client: client.nodes())
    site.ask(lambda client: client.drain(node.name))
    until(lambda: not site.workers(), "the node to be empty")
    later = submit(site, "pass", devices=1, work="5 steps", deadline="1h")
    assert state_of(site, running) == "suspended"
    assert state_of(site, later) in ("asking", "pending")
    site.ask(lambda client: client.undrain(node.name))
    until(lambda: state_of(site, later) in OVER and state_of(site, running) in OVER, "both")
    assert (state_of(site, running), state_of(site, later)) == ("finished", "finished")


def test_forty_megabytes_of_output_come_whole(site: Site) -> None:
    code = "print(('x' * 79 + chr(10)) * (42 * 2**20 // 80), end='')"
    job = submit(site, code, devices=1, work="5 steps")
    until(lambda: state_of(site, job) in OVER, "its end")
    began = time.monotonic()
    size = sum(len(piece.text) for piece in site.ask(lambda client: list(client.follow_logs(job, until_now=True))))
    print(f"{size} bytes in {time.monotonic() - began:.1f} s")
    assert size >= 42 * 2**20 - 80
