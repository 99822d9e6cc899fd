"""Servers that start with another number of slots than the one before: the jobs that run keep theirs."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.site import OVER, Site, until

_UNTIL_TOLD = """
import pathlib, time
step = 0
while not pathlib.Path("end").exists():
    step = min(step + 1, 9)
    print(f"penstock: step={step} total=10", flush=True)
    time.sleep(0.5)
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path, slots=5)
    yield found
    found.close()


def test_jobs_keep_their_slots_whatever_the_next_server_is_told(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    where = {"working_dir": str(site.folder)}
    spec = {"command": [sys.executable, "-c", _UNTIL_TOLD], "work": "10 steps", "devices": 1, "environment": where}
    jobs = [site.ask(lambda client: client.submit(spec)).job.id for _ in range(3)]
    workers = until(lambda: found if len(found := site.workers()) == 3 else [], "three workers")

    def sizes() -> list[int]:
        return [len(node.devices) for node in site.ask(lambda client: client.nodes())]

    site.kill_server()
    monkeypatch.setattr(Site, "options", lambda _: [])
    assert sizes() == [5], "a server that starts by itself serves with the slots of the one before"
    site.kill_server()
    monkeypatch.setattr(Site, "options", lambda _: ["--slots", "1"])
    until(lambda: any(event.kind == "DeviceLeft" for event in site.events()), "slots to be closed")
    assert site.workers() == workers
    for job in jobs:
        assert site.ask(lambda client, job=job: client.job(job)).state == "running"  # type: ignore[misc]
        assert "are lost" not in str(site.ask(lambda client, job=job: client.why(job)))  # type: ignore[misc]
    (site.folder / "end").touch()
    until(lambda: all(state in OVER for state in site.states().values()), "the ends")
    assert set(site.states().values()) == {"finished"}
    until(lambda: sizes() == [1], "the node to have one slot")
