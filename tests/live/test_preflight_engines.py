"""Nodes of a real Slurm and a real Kubernetes that are checked before a job starts there; some of them really fail.

What the engine starts on an unfit node has too few file descriptors: there it is a slurmd, or the runtime of a kubelet,
that was started so.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.live.checked_site import NOT_FIT, TOO_FEW_FILES, CheckedSite, small_python, whole_python
from tests.tools import needs
from tests.tools.kubernetes import ControlPlane, Testbed, opened_testbed
from tests.tools.slurm import NODES, PARTITION, SlurmCluster, running_slurm

UNFIT, *FIT = NODES


@pytest.fixture(autouse=True)
def _limits() -> None:
    needs.engine("prlimit")
    needs.names()


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    with running_slurm(tmp_path_factory.mktemp("slurm") / "cluster", {UNFIT: TOO_FEW_FILES}) as running:
        yield running


@pytest.fixture
def batch_site(tmp_path: Path, slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[CheckedSite]:
    monkeypatch.setenv("SLURM_CONF", str(slurm.configuration))
    lines = ('backend = "slurm"', "[backend_settings]", f'partition = "{PARTITION}"', "owner = true", "cpus = 4")
    site = CheckedSite(tmp_path, "\n".join([*lines, 'host = "127.0.0.1"']))
    yield site
    site.close()


@pytest.fixture
def testbed(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Testbed]:
    """Four nodes with one device each, of which the first is unfit."""
    gpus = [{"nvidia.com/gpu": "1"}] * 4
    with opened_testbed(control_plane, tmp_path, gpus, before={0: TOO_FEW_FILES}) as found:
        yield found


@pytest.fixture
def pod_site(tmp_path: Path, testbed: Testbed) -> Iterator[CheckedSite]:
    site = CheckedSite(tmp_path, testbed.server_settings(python=small_python(tmp_path / "image")))
    yield site
    site.close()


@pytest.fixture
def whole_pod_site(tmp_path: Path, testbed: Testbed) -> Iterator[CheckedSite]:
    """Whose image has PyTorch."""
    site = CheckedSite(tmp_path, testbed.server_settings(python=whole_python(tmp_path / "image")))
    yield site
    site.close()


def _runs_where_it_is_fit(site: CheckedSite, unfit: str, fit: str) -> None:
    """On a sound node it passes and starts; the unfit one is drained with the reason, and the job goes on elsewhere."""
    sound = site.submit(preflight="quick", nodes=[fit])
    assert site.outcome(sound) == "finished", site.story(sound) + site.log(sound)
    assert f"fit for work: {fit}" in site.log(sound)
    assert "trained" in site.log(sound)

    moved = site.submit(preflight="quick", nodes={"only": [unfit, fit], "prefer": [unfit]})
    assert site.outcome(moved) == "finished", site.story(moved) + site.log(moved)
    assert f"node {unfit} failed its preflight and is drained ({NOT_FIT}" in site.story(moved)
    assert site.log(moved).count("trained") == 1
    assert f"fit for work: {fit}" not in site.log(moved), "a node that did well is not checked again"
    assert site.ask(lambda client: client.job(moved)).failures == 0, "no failure of its script"
    nodes = {node.name: node for node in site.ask(lambda client: client.nodes())}
    assert (nodes[fit].state, nodes[fit].checked) == ("up", "quick")
    assert nodes[unfit].state == "drained"
    assert any(why.startswith(f"drained: preflight: {NOT_FIT}") for why in nodes[unfit].unusable)


def test_a_job_on_slurm(batch_site: CheckedSite) -> None:
    _runs_where_it_is_fit(batch_site, UNFIT, FIT[0])


def test_a_job_on_kubernetes(pod_site: CheckedSite, testbed: Testbed) -> None:
    _runs_where_it_is_fit(pod_site, *testbed.nodes[:2])


def _spans_nodes_that_are_fit(site: CheckedSite, nodes: Sequence[str]) -> None:
    """A gang over three nodes, of which one fails, goes on over another; those that are fit try collectives."""
    unfit, *fit = nodes
    job = site.submit(
        command=[whole_python(site.folder / "whole"), "-c", "print('trained')"], devices=3, preflight="quick",
        nodes={"only": list(nodes), "prefer": list(nodes[:3])},
    )  # fmt: skip
    assert site.outcome(job) == "finished", site.story(job) + site.log(job)
    assert f"node {unfit} failed its preflight and is drained ({NOT_FIT}" in site.story(job)
    log = site.log(job)
    assert "collectives in pairs of 2 nodes, rounds: 1" in log
    assert log.count("trained") == 3
    states = {node.name: (node.state, node.checked) for node in site.ask(lambda client: client.nodes())}
    assert states[unfit] == ("drained", "")
    assert {states[name] for name in fit} == {("up", "quick")}


@pytest.mark.long
def test_a_gang_on_slurm(batch_site: CheckedSite) -> None:
    _spans_nodes_that_are_fit(batch_site, NODES)


@pytest.mark.long
def test_a_gang_on_kubernetes(whole_pod_site: CheckedSite, testbed: Testbed) -> None:
    _spans_nodes_that_are_fit(whole_pod_site, testbed.nodes)
