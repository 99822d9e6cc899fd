"""Nodes that a submission names: what the platform does not have is refused at once, what it has is kept to."""

from pathlib import Path
from typing import Any

import pytest

from penstock.control.loop.job_reader import JobReader
from penstock.control.loop.learning_stores import LearningStores
from penstock.core import Cluster, InputError, Node, NodeChoice
from penstock.wire import DrainRequest
from tests.control.build import ADMIN, Platform

NODES = (Node(name="a", device_count=4), Node(name="b", device_count=4), Node(name="c", device_count=8, kind="npu"))


@pytest.fixture
def reader(tmp_path: Path) -> JobReader:
    return JobReader(LearningStores(tmp_path / "data", lambda: Cluster(NODES)))


@pytest.fixture
def world(tmp_path: Path) -> Platform:
    return Platform(f"sqlite:///{tmp_path / 'penstock.db'}", nodes=NODES)


def spec(folder: Path, **said: Any) -> dict[str, Any]:
    (folder / "train.py").write_text("print('hello')")
    return {"script": "train.py", "work": "500 steps", "environment": {"working_dir": str(folder)}, **said}


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"nodes": ["d"]}, "unknown node 'd'. Allowed: a, b, c"),
        ({"nodes": {"avoid": ["bb"]}}, "unknown node 'bb'"),
        ({"nodes": {"prefer": ["bb"]}}, "unknown node 'bb'"),
        (
            {"nodes": ["a"], "devices": "6..8"},
            "at least 6 devices only on a. Allowed: at most 4: that is what these nodes have. Ask for fewer devices",
        ),
        (
            {"nodes": ["c"], "kinds": ["gpu"]},
            "nodes (only on c) without a device of gpu. Allowed: nodes that have",
        ),
        ({"nodes": {"avoid": ["a", "b", "c"]}}, "nodes (never on a, b, c) without a device of gpu or npu"),
    ],
)
def test_what_can_never_be_is_refused(tmp_path: Path, reader: JobReader, said: Any, complaint: str) -> None:
    with pytest.raises(InputError) as problem:
        reader.read(spec(tmp_path, **said), job_id="j-1", tenant="default", now=0.0)
    assert complaint in str(problem.value)


def test_what_can_be_reaches_the_scheduler(tmp_path: Path, reader: JobReader) -> None:
    said = spec(tmp_path, nodes={"only": ["a", "b"], "prefer": ["b"]}, devices="2..8")
    draft = reader.read(said, job_id="j-1", tenant="default", now=0.0)
    assert draft.job.nodes == NodeChoice(only=("a", "b"), prefer=("b",))


def test_jobs_run_on_their_nodes_and_a_restart_knows_it(world: Platform) -> None:
    here = world.submit(work=1000, at_least=4, at_most=4, nodes={"only": ["b"]})
    there = world.submit(work=1000, at_least=4, at_most=4, nodes={"avoid": ["b", "c"]})
    world.passes(2)
    held = {node.name: node.jobs for node in world.platform.nodes(ADMIN)}
    assert (held["a"], held["b"]) == ([there], [here])
    world.restart()
    world.passes(2)
    world.journal.state.scheduler.validate()
    assert {node.name: node.jobs for node in world.platform.nodes(ADMIN)} == held


def test_a_job_whose_node_is_drained_is_refused_with_that_reason(world: Platform) -> None:
    world.platform.drain("b", ADMIN, DrainRequest(reason="new memory"))
    view = world.platform.job(world.submit(work=1000, nodes={"only": ["b"]}), ADMIN)
    assert view.state == "declined"
    assert "every node that it may run on (only on b) is drained or lost" in view.reason
