"""A real server on several nodes, some of which are not fit for work: jobs that ask for it never start there.

The machines are played by this one; those that are unfit have too few file descriptors, which is a real failure of a
real check.
"""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.backends import spanning
from tests.live.site import OVER, Site, until

BACKEND = f"{spanning.__file__}:SpanningBackend"
TOO_FEW_FILES = ["prlimit", "--nofile=1024:1024"]


class Cluster(Site):
    """Nodes of four slots; ``unfit`` ones fail every check."""

    def __init__(self, folder: Path, nodes: tuple[str, ...], unfit: tuple[str, ...], settings: str = "") -> None:
        super().__init__(folder, slots=0)
        self.data.mkdir(mode=0o700)
        prefixes = "\n".join(f"{node} = {TOO_FEW_FILES}" for node in unfit)
        (self.data / "penstock.toml").write_text(
            f'backend = "{BACKEND}"\n{settings}\n[backend_settings]\nnodes = {list(nodes)}\n'
            f"[backend_settings.prefixes]\n{prefixes}\n"
        )

    def options(self) -> list[str]:
        return []

    def submit(self, **more: Any) -> str:
        spec = {
            "command": [self.python(), "-c", "print('trained')"], "work": "10 steps", "devices": 1, "profile": "never",
            "environment": {"working_dir": str(self.folder)}, **more,
        }  # fmt: skip
        return self.ask(lambda client: client.submit(spec)).job.id

    def python(self, before: str = "") -> str:
        """One that sees the standard library and this package, so that a check takes a moment."""
        place = self.folder / f"job{len(before)}" / "python3"
        place.parent.mkdir(exist_ok=True)
        place.write_text(f'#!/bin/sh\n{before}\nexec {sys.executable} -S "$@"\n')
        place.chmod(0o755)
        return str(place)

    def outcome(self, job_id: str) -> str:
        return until(lambda: self._state(job_id) in OVER and self._state(job_id), f"the end of {job_id}")

    def _state(self, job_id: str) -> str:
        return self.ask(lambda client: client.job(job_id)).state

    def story(self, job_id: str) -> str:
        return "\n".join(note.text for note in self.ask(lambda client: client.why(job_id)).entries)

    def log(self, job_id: str) -> str:
        return self.ask(lambda client: client.logs(job_id)).text


@pytest.fixture(autouse=True)
def _limits() -> None:
    if shutil.which("prlimit") is None:
        pytest.skip("prlimit is not installed")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path, nodes=("a", "b", "c"), unfit=("a", "b"))
    yield found
    found.close()


def test_a_job_goes_on_elsewhere_and_unfit_nodes_are_drained_with_the_reason(cluster: Cluster) -> None:
    job = cluster.submit(preflight="quick")
    assert cluster.outcome(job) == "finished", cluster.story(job)
    assert cluster.ask(lambda client: client.job(job)).failures == 0, "no failure of its script"
    nodes = {node.name: node for node in cluster.ask(lambda client: client.nodes())}
    drained = [name for name, node in nodes.items() if node.state == "drained"]
    assert drained
    assert set(drained) <= {"a", "b"}
    for name in drained:
        (why,) = nodes[name].unusable
        assert why.startswith("drained: preflight: open files: 1024, expected at least 4096")
        assert f"node {name} failed its preflight and is drained" in cluster.story(job)
    assert (nodes["c"].state, nodes["c"].checked) == ("up", "quick")

    _is_not_checked_again(cluster, drained)


def _is_not_checked_again(cluster: Cluster, drained: list[str]) -> None:
    """A good node is believed for a while, also by the next server."""
    for node in {"a", "b"} - set(drained):
        cluster.ask(lambda client, node=node: client.drain(node))
    cluster.stop_server()
    cluster.start()
    believes, doubts = cluster.submit(preflight="quick"), cluster.submit(preflight={"again_after": "0s"})
    assert cluster.outcome(believes) == cluster.outcome(doubts) == "finished"
    assert "checking c" not in cluster.log(believes)
    assert "checking c before workers start there (preflight: quick)" in cluster.log(doubts)


def test_the_last_node_stays_in_use_and_the_job_is_told(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, nodes=("only",), unfit=("only",), settings="preflight_from = 2")
    try:
        job = cluster.submit(devices=2, retries=0)
        small, told = cluster.submit(), cluster.submit(devices=2, preflight=False)
        assert (cluster.outcome(job), cluster.outcome(small), cluster.outcome(told)) == ("failed",) + ("finished",) * 2
        detail = cluster.ask(lambda client: client.job(job))
        assert detail.reason.startswith("penstock: open files: 1024, expected at least 4096")
        assert "its nodes failed the check before it started" in detail.reason
        assert "stays in use: it is the only one" in cluster.story(job)
        (node,) = cluster.ask(lambda client: client.nodes())
        assert (node.state, node.checked) == ("up", "")
    finally:
        cluster.close()


def test_an_environment_that_fails_everywhere_has_no_node_drained(cluster: Cluster) -> None:
    for node in ("a", "b"):
        cluster.ask(lambda client, node=node: client.drain(node))
    cramped = [cluster.python("ulimit -n 256"), "-c", "print('trained')"]
    job = cluster.submit(command=cramped, preflight="quick", retries={"max": 1, "backoff": "0s"})
    assert cluster.outcome(job) == "failed"
    assert "in the job's environment but not in Penstock's" in cluster.ask(lambda client: client.job(job)).reason
    assert {node.name: node.state for node in cluster.ask(lambda client: client.nodes())}["c"] == "up"
    assert cluster.ask(lambda client: client.job(job)).failures == 2, "tried again, like any other failure"
