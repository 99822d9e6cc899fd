"""What happens to runs when a cluster has no room, no image, no node or no server any more."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

from penstock.backends import KubernetesBackend
from penstock.backends.testing import (
    make_launch,
    output,
    status,
    until,
    wait_for,
    wait_for_end,
    wait_for_output,
)
from penstock.core import INTERPRETER, DeviceSlot, Recipe, ReportKind, RunState
from tests.backends.kubernetes.backends import backend_on, settings_for
from tests.backends.test_python_environments import make_wheel
from tests.tools.kubernetes import Testbed

ENDLESS = ("sleep", "600")


def foreign_pod(testbed: Testbed, node: str, count: int) -> None:
    resources = {"limits": {"nvidia.com/gpu": str(count)}}
    container = {"name": "main", "image": "x", "command": ["sleep", "600"], "resources": resources}
    spec = {"containers": [container], "nodeName": node, "terminationGracePeriodSeconds": 0}
    testbed.rest.post(f"/api/v1/namespaces/{testbed.namespace}/pods", {"metadata": {"name": "foreign"}, "spec": spec})


def test_what_others_hold_and_what_is_cordoned_is_heard_of_without_asking(testbed: Testbed, tmp_path: Path) -> None:
    first, second = testbed.nodes
    with backend_on(testbed, tmp_path / "state") as backend:
        assert {(node.name, node.device_count, node.kind) for node in backend.nodes()} == {
            (first, 2, "gpu"), (second, 2, "gpu")
        }  # fmt: skip
        until(lambda: backend.unusable() == {}, "nodes that are ready")
        foreign_pod(testbed, first, 1)
        until(
            lambda: backend.unusable() == {DeviceSlot(first, 1): f"held by pod {testbed.namespace}/foreign"}, "the pod"
        )
        testbed.rest.patch(f"/api/v1/nodes/{second}", {"spec": {"unschedulable": True}})
        until(lambda: backend.unusable().get(DeviceSlot(second, 0)) == "cordoned", "the cordon")
        testbed.rest.delete(testbed.pod_path("foreign"), gracePeriodSeconds=0)
        testbed.rest.patch(f"/api/v1/nodes/{second}", {"spec": {"unschedulable": False}})
        until(lambda: backend.unusable() == {}, "all to be free again")


def test_a_gang_without_room_is_released_with_the_clusters_words(testbed: Testbed, tmp_path: Path) -> None:
    with backend_on(testbed, tmp_path / "state") as backend:
        launch = make_launch(backend, ENDLESS, 4)
        foreign_pod(testbed, testbed.nodes[0], 1)
        backend.launch(launch)
        last = wait_for_end(backend, "run-1")
        assert last.kind is ReportKind.FAILED
        assert "Insufficient nvidia.com/gpu" in output(backend, "run-1")
        until(lambda: {pod["metadata"]["name"] for pod in testbed.pods()} == {"foreign"}, "no pod of the run to stay")


def test_requirements_are_installed_once_for_all_pods(testbed: Testbed, tmp_path: Path) -> None:
    recipe = Recipe(command=(INTERPRETER, "-c", "import tinything; print('found', tinything.VALUE)"),
                    requirements=(str(make_wheel(tmp_path / "wheels")),), working_dir=str(tmp_path))  # fmt: skip
    with backend_on(testbed, tmp_path / "state", cache_dir=str(tmp_path / "cache")) as backend:
        ready = backend.prepare(recipe, lambda _: None)
        backend.launch(make_launch(backend, ready.command, 2, working_dir=str(tmp_path)))
        assert wait_for_end(backend, "run-1").kind is ReportKind.FINISHED, output(backend, "run-1")
        assert output(backend, "run-1", "w1").splitlines()[-1] == "found 1"
        assert len([one for one in (tmp_path / "cache").iterdir() if one.is_dir()]) == 1


def test_setup_commands_run_in_each_pod_where_there_is_no_cache_for_all(testbed: Testbed, tmp_path: Path) -> None:
    recipe = Recipe(command=(INTERPRETER, "-c", "print(open('made').read(), end='')"), setup="echo set up > made",
                    working_dir=str(tmp_path), env=(("TMPDIR", str(tmp_path)),))  # fmt: skip
    with backend_on(testbed, tmp_path / "state") as backend:
        ready = backend.prepare(recipe, lambda _: None)
        launch = make_launch(backend, ready.command, 2, working_dir=str(tmp_path), env=recipe.env)
        backend.launch(launch)
        assert wait_for_end(backend, "run-1").kind is ReportKind.FINISHED, output(backend, "run-1")
        assert output(backend, "run-1", "w1").splitlines()[-1] == "set up"
        assert (tmp_path / "penstock-environments").is_dir()


def test_an_image_that_cannot_be_pulled_is_told(testbed: Testbed, tmp_path: Path) -> None:
    with backend_on(testbed, tmp_path / "state", image="no-such/image:1") as backend:
        backend.launch(make_launch(backend, ENDLESS, 2))
        assert wait_for_end(backend, "run-1").kind is ReportKind.FAILED
        assert 'ErrImagePull: failed to pull image "no-such/image:1"' in output(backend, "run-1")


def test_a_deleted_pod_ends_a_plain_run_and_too_much_memory_is_named(testbed: Testbed, tmp_path: Path) -> None:
    with backend_on(testbed, tmp_path / "state", memory_per_device="200Mi") as backend:
        backend.launch(make_launch(backend, ENDLESS, 2))
        wait_for(backend, "run-1", ReportKind.WORKER_STARTED, count=2)
        testbed.rest.delete(testbed.pod_path(testbed.pods()[0]["metadata"]["name"]))
        assert wait_for_end(backend, "run-1").kind is ReportKind.FAILED
        fat = ("python3", "-c", "x = bytearray(2**29); import time; time.sleep(60)")
        backend.launch(make_launch(backend, fat, run_id="run-2"))
        assert wait_for_end(backend, "run-2").kind is ReportKind.FAILED
        assert "OOMKilled" in output(backend, "run-2")


def test_what_a_dead_agent_and_a_lost_directory_leave_is_removed(testbed: Testbed, tmp_path: Path) -> None:
    with backend_on(testbed, tmp_path / "state") as backend:
        backend.launch(make_launch(backend, ENDLESS, 2))
        launched = wait_for(backend, "run-1", ReportKind.LAUNCHED)
        wait_for(backend, "run-1", ReportKind.WORKER_STARTED, count=2)
        os.kill(launched.pid or 0, signal.SIGKILL)
        until(lambda: status(backend, "run-1").state is RunState.ENDED, "a run without an agent to be over")
        assert testbed.pods() == []
        shutil.rmtree(tmp_path / "state" / "runs" / "run-1")
    secrets: list[dict[str, Any]] = testbed.rest.get(f"/api/v1/namespaces/{testbed.namespace}/secrets")["items"]
    assert [one["metadata"]["name"] for one in secrets if one["type"] == "Opaque"] == []


def test_a_server_that_was_away_finds_its_runs(testbed: Testbed, tmp_path: Path) -> None:
    with backend_on(testbed, tmp_path / "state") as first:
        first.launch(make_launch(first, ("sh", "-c", "echo here; sleep 600"), 2))
        wait_for_output(first, "run-1", "here")
        second = KubernetesBackend(tmp_path / "state", settings_for(testbed))
        assert [(run.run_id, run.alive) for run in second.runs()] == [("run-1", True)]
        assert len(testbed.pods()) == 2
        second.close()
