"""Jobs that name their nodes on a real server: they run there and nowhere else, and who can be moved makes way."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends import spanning
from tests.live.checked_site import CheckedSite
from tests.live.site import until

BACKEND = f"{spanning.__file__}:SpanningBackend"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[CheckedSite]:
    """Two nodes with four devices each."""
    found = CheckedSite(tmp_path, f'backend = "{BACKEND}"\n[backend_settings]\nnodes = ["a", "b"]\n')
    yield found
    found.close()


def _place(site: CheckedSite, job: str) -> list[str]:
    """The nodes that its workers live on."""
    return sorted({name for name, jobs in _jobs_by_node(site).items() if job in jobs})


def _jobs_by_node(site: CheckedSite) -> dict[str, list[str]]:
    return {node.name: node.jobs for node in site.ask(lambda client: client.nodes())}


def _runs_on(site: CheckedSite, job: str, node: str, workers: int) -> None:
    def is_there() -> bool:
        alive = [worker for worker in site.workers() if worker.run_id.startswith(job)]
        return _place(site, job) == [node] and len(alive) == workers

    until(is_there, f"{job} to run on {node}")


def test_a_job_that_can_be_moved_makes_way_and_one_that_cannot_is_waited_for(site: CheckedSite) -> None:
    sleep = ["sleep", "600"]
    movable = site.submit(command=sleep, devices=2, resumable=True, nodes={"prefer": ["a"]})
    _runs_on(site, movable, "a", 2)
    pinned = site.submit(command=sleep, devices=4, resumable=False, nodes=["a"])
    _runs_on(site, pinned, "a", 4)
    _runs_on(site, movable, "b", 2)
    assert "moved to other devices: 2 devices on 1 node" in site.story(movable)

    second = site.submit(devices=1, nodes=["a"])
    until(lambda: "which are held by" in site.ask(lambda client: client.why(second)).now, "a word about its wait")
    said = site.ask(lambda client: client.why(second)).now
    assert f"it runs only on a and needs 1 device there, which are held by job {pinned} (4, cannot resume" in said
    anywhere = site.submit(devices=1, nodes={"avoid": ["a"]})
    assert site.outcome(anywhere) == "finished"
    assert site.state(second) not in ("finished", "running"), "there is room on b, which it may not have"
    site.ask(lambda client: client.cancel(pinned))
    assert site.outcome(second) == "finished"
