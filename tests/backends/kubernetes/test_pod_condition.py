"""What a pod's status means for its part, in the cluster's own words."""

from typing import Any

import pytest

from penstock.backends.agent.parts import PartFate
from penstock.backends.kubernetes.pods.pod_condition import Wait, ended, node_fault, seems_lost, vanished, waiting


def pod(phase: str, *, state: dict[str, Any] | None = None, deleted: bool = False, **status: Any) -> dict[str, Any]:
    about = {"name": "p", **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {})}
    containers = [{"name": "worker", "state": state}] if state else []
    return {"metadata": about, "spec": {}, "status": {"phase": phase, "containerStatuses": containers, **status}}


def test_no_room_is_told_in_the_schedulers_words() -> None:
    words = "0/3 nodes are available: 1 Insufficient nvidia.com/gpu."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    found = waiting(pod("Pending", conditions=[condition]))
    assert found is not None
    assert (found.wait, found.words) == (Wait.ROOM, f"Unschedulable: {words}")


@pytest.mark.parametrize(
    ("reason", "wait"),
    [("ErrImagePull", Wait.IMAGE), ("ImagePullBackOff", Wait.IMAGE), ("CreateContainerConfigError", Wait.IMAGE),
     ("InvalidImageName", Wait.HOPELESS)],
)  # fmt: skip
def test_an_image_that_does_not_come(reason: str, wait: Wait) -> None:
    found = waiting(pod("Pending", state={"waiting": {"reason": reason, "message": "not found"}}))
    assert found is not None
    assert (found.wait, found.words) == (wait, f"{reason}: not found")


def test_a_pod_that_is_being_made_or_runs_waits_for_nothing() -> None:
    assert waiting(pod("Pending", state={"waiting": {"reason": "ContainerCreating"}})) is None
    assert waiting(pod("Pending")) is None
    assert waiting(pod("Running", state={"running": {}})) is None


@pytest.mark.parametrize(
    ("terminated", "status", "fate", "code"),
    [
        ({"exitCode": 0, "reason": "Completed"}, {}, PartFate.EXITED, 0),
        ({"exitCode": 3, "reason": "Error"}, {}, PartFate.EXITED, 3),
        ({"exitCode": 137, "reason": "OOMKilled"}, {}, PartFate.OUT_OF_MEMORY, 137),
        ({"exitCode": 128, "reason": "StartError"}, {}, PartFate.REFUSED, 128),
        (
            {"exitCode": 143, "reason": "Error"},
            {"reason": "Evicted", "message": "low on memory"},
            PartFate.EVICTED,
            143,
        ),
        (None, {"reason": "OutOfnvidia.com/gpu", "message": "no room"}, PartFate.REFUSED, None),
        (None, {"reason": "NodeLost"}, PartFate.NODE_LOST, None),
    ],
)
def test_how_a_pod_ended(
    terminated: dict[str, Any] | None, status: dict[str, str], fate: PartFate, code: int | None
) -> None:
    state = {"terminated": terminated} if terminated else None
    end = ended(pod("Succeeded" if code == 0 else "Failed", state=state, **status))
    assert end is not None
    assert (end.fate, end.code) == (fate, code)


def test_one_that_is_gone_was_deleted_or_taken_away() -> None:
    assert vanished(pod("Running", state={"running": {}})).fate is PartFate.DELETED
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "for p9"}
    end = vanished(pod("Failed", state={"terminated": {"exitCode": 143}}, conditions=[condition]))
    assert (end.fate, end.code, end.words) == (PartFate.EVICTED, 143, "PreemptionByScheduler: for p9")


def test_a_lost_node_is_suspected_by_its_pods_and_known_by_itself() -> None:
    assert seems_lost(pod("Running", conditions=[{"type": "Ready", "status": "False"}]))
    assert seems_lost(pod("Running", deleted=True))
    assert not seems_lost(pod("Running", conditions=[{"type": "Ready", "status": "True"}]))
    assert not seems_lost(pod("Pending", conditions=[{"type": "Ready", "status": "False"}]))
    lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "no word"}
    node = {"metadata": {"name": "a"}, "status": {"conditions": [lost]}}
    assert node_fault(node) == "node a is NotReady: NodeStatusUnknown: no word"
    assert node_fault({"metadata": {"name": "a"}, "status": {"conditions": [{**lost, "status": "True"}]}}) == ""
    assert node_fault(None) == "the node was deleted"
