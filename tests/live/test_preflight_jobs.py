"""A real server on several nodes, some of which are not fit for work: jobs that ask for it never start there.

The machines are played by this one; those that are unfit have too few file descriptors, which is a real failure of a
real check.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.client import CheckedNode, Client, check_nodes
from penstock.core import InputError, PenstockError, PreflightLevel
from tests.backends import spanning
from tests.live.checked_site import NOT_FIT, TOO_FEW_FILES, CheckedSite
from tests.live.site import OVER, Site, until
from tests.tools import needs

BACKEND = f"{spanning.__file__}:SpanningBackend"


class Cluster(CheckedSite):
    """Nodes of four slots; ``unfit`` ones fail every check."""

    def __init__(self, folder: Path, nodes: tuple[str, ...], unfit: tuple[str, ...], settings: str = "") -> None:
        prefixes = "\n".join(f"{node} = {TOO_FEW_FILES}" for node in unfit)
        super().__init__(
            folder,
            f'backend = "{BACKEND}"\n{settings}\n[backend_settings]\nnodes = {list(nodes)}\n'
            f"[backend_settings.prefixes]\n{prefixes}\n",
        )


@pytest.fixture(autouse=True)
def _limits() -> None:
    needs.engine("prlimit")
    needs.names()


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
        assert why.startswith(f"drained: preflight: {NOT_FIT}")
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
        assert detail.reason.startswith(f"penstock: {NOT_FIT}")
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


def test_nodes_are_checked_by_jobs_of_the_platform_without_a_way_to_them(cluster: Cluster) -> None:
    busy = cluster.submit(command=["sleep", "600"], nodes=["c"])
    until(lambda: cluster.ask(lambda client: client.job(busy)).devices, "a job that holds a device")
    holder = cluster.ask(lambda client: client.job(busy)).devices[0]
    assert holder in {node.name: node for node in cluster.ask(lambda client: client.nodes())}["c"].devices
    folder = str(cluster.folder)
    good, bad = cluster.ask(lambda client: _checks(client, folder))
    assert (good.node, good.fit) == ("c", None)
    assert good.reason.startswith(f"busy: its devices are in use by {busy}")
    assert (bad.node, bad.fit) == ("a", False)
    assert bad.reason.startswith(NOT_FIT)
    (fit,) = _check_when_free(cluster, busy, "c")
    assert (fit.fit, fit.reason) == (True, "")
    states = {node.name: (node.state, node.checked) for node in cluster.ask(lambda client: client.nodes())}
    assert (states["a"], states["c"]) == (("drained", ""), ("up", "quick"))
    with pytest.raises(InputError, match="node a is drained"):
        cluster.ask(lambda client: check_nodes(client, ["a"]))
    with pytest.raises(InputError, match="unknown node 'd'"):
        cluster.ask(lambda client: check_nodes(client, ["d"]))
    with pytest.raises(PenstockError, match="unknown node 'd'"):
        cluster.submit(nodes=["c", "d"])


def _check_when_free(cluster: Cluster, busy: str, node: str) -> list[CheckedNode]:
    """The check of a node in use waits for the job there, says so, and runs when that is over."""
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(
            cluster.ask,
            lambda client: check_nodes(
                client, [node], level=PreflightLevel.QUICK, folder=str(cluster.folder), wait_s=300.0
            ),
        )
        (check,) = until(lambda: _checks_that_wait(cluster), "a check that waits")
        why = cluster.ask(lambda client: client.why(check)).now
        assert f"it runs only on {node} and needs 4 devices there, which are held by job {busy}" in why
        cluster.ask(lambda client: client.cancel(busy))
        return waiting.result()


def _checks_that_wait(cluster: Cluster) -> list[str]:
    jobs = cluster.ask(lambda client: client.jobs()).jobs
    return [job.id for job in jobs if job.name.startswith("preflight-c") and job.state not in OVER]


def _checks(client: Client, folder: str) -> list[CheckedNode]:
    return check_nodes(client, ["c", "a"], level=PreflightLevel.QUICK, folder=folder)


def test_the_local_backend_checks_its_machine_by_a_job(tmp_path: Path) -> None:
    site = Site(tmp_path, slots=2)
    try:
        (node,) = site.ask(lambda client: client.nodes())
        (found,) = site.ask(lambda client: check_nodes(client, [node.name], level=PreflightLevel.QUICK))
        assert (found.fit, found.reason) == (True, "")
        assert site.ask(lambda client: client.nodes())[0].checked == "quick"
    finally:
        site.close()
