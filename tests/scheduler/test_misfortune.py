"""Nodes that go and come, workers that die, and what work that costs."""

from typing import Any

import pytest

from penstock.core import (
    Deadline,
    Event,
    EventError,
    Grant,
    JobFinished,
    JobSubmitted,
    Node,
    NodeJoined,
    NodeLost,
    Resize,
    Resume,
    Start,
    Suspend,
    Tick,
    Wake,
    WorkerFailed,
)
from penstock.scheduler import JobState, Scheduler
from tests.scheduler.build import grants, job, kinds, scheduler


def spanning(**changes: Any) -> Scheduler:
    """One job on all four devices of two nodes since time 0, writing a checkpoint every 10 s."""
    machine = scheduler("2x2", "edf")
    machine.handle(JobSubmitted(0.0, job("a", 1000.0, checkpoint_every_s=10.0, **changes)))
    assert machine.devices_of("a") == (0, 1, 2, 3)
    return machine


def test_a_lost_node_stops_the_whole_gang_which_goes_on_elsewhere_from_its_last_checkpoint() -> None:
    machine = spanning()
    said = machine.handle(NodeLost(25.0, "node-1"))
    assert said == [Suspend("a"), Resume(Grant("a", "gpu", (0, 1), nodes=1))]
    done, lost = 25 * 4, 5 * 4
    assert machine.remaining("a") == 1000 - done + lost
    assert machine.next_finish_at() == 25 + 920 / 2
    machine.validate()


def test_nothing_is_lost_right_after_a_checkpoint() -> None:
    machine = spanning()
    machine.handle(NodeLost(30.0, "node-1"))
    assert machine.remaining("a") == 1000 - 30 * 4


def test_work_is_saved_whenever_the_devices_change() -> None:
    machine = spanning(goal=Deadline(5000.0))
    machine.handle(JobSubmitted(12.0, job("b", at_most=2, goal=Deadline(900.0), submitted_at=12.0)))
    assert len(machine.devices_of("a")) == 2
    machine.handle(WorkerFailed(15.0, "a"))
    assert machine.remaining("a") == 1000 - 12 * 4, "the 3 s since the change are lost, not 5 s since the last full 10"


def test_a_rigid_job_waits_until_the_node_is_back() -> None:
    machine = scheduler("2x2")
    node = machine.cluster.nodes[1]
    machine.handle(JobSubmitted(0.0, job("a", requested=4, checkpoint_every_s=10.0)))
    assert machine.handle(NodeLost(15.0, "node-1")) == [Suspend("a")]
    assert (machine.state_of("a"), machine.remaining("a")) == (JobState.SUSPENDED, 60.0)
    machine.validate()
    assert machine.handle(NodeJoined(100.0, node)) == [Resume(Grant("a", "gpu", (0, 1, 2, 3), nodes=2))]
    assert machine.next_finish_at() == 115.0
    machine.validate()


def test_jobs_on_other_nodes_run_on() -> None:
    machine = scheduler("2x2")
    machine.handle(JobSubmitted(0.0, job("a", requested=2)), JobSubmitted(0.0, job("b", requested=2)))
    assert machine.handle(NodeLost(10.0, "node-0")) == [Suspend("a")]
    assert (machine.devices_of("b"), machine.remaining("b")) == ((2, 3), 80.0)


def test_a_loss_is_told_at_once_though_the_next_decision_is_a_slot_away() -> None:
    machine = scheduler("2x2", "edf", slot=60.0)
    machine.handle(JobSubmitted(0.0, job("a", 1000.0)))
    assert machine.handle(NodeLost(20.0, "node-0")) == [Suspend("a"), Wake(60.0)]
    machine.validate()
    assert machine.handle(Tick(60.0)) == [Resume(Grant("a", "gpu", (2, 3), nodes=1))]


def test_a_node_that_is_lost_twice_or_joins_twice_changes_nothing() -> None:
    machine = scheduler("2x2", "edf")
    machine.handle(JobSubmitted(0.0, job("a", 1000.0)))
    assert machine.handle(NodeJoined(1.0, machine.cluster.nodes[1])) == []
    machine.handle(NodeLost(2.0, "node-1"))
    assert machine.handle(NodeLost(3.0, "node-1")) == []
    assert machine.devices_of("a") == (0, 1)


def test_a_returned_node_is_used_again() -> None:
    machine = spanning()
    node = machine.cluster.nodes[1]
    machine.handle(NodeLost(30.0, "node-1"))
    assert machine.handle(NodeJoined(40.0, node)) == [Resize(Grant("a", "gpu", (0, 1, 2, 3), nodes=2))]
    assert machine.remaining("a") == 1000 - 30 * 4 - 10 * 2


def test_a_new_node_makes_room() -> None:
    machine = scheduler("1x2")
    machine.handle(JobSubmitted(0.0, job("a", requested=2)), JobSubmitted(0.0, job("b", requested=2)))
    said = machine.handle(NodeJoined(5.0, Node(name="late", device_count=2)))
    assert said == [Start(Grant("b", "gpu", (2, 3), nodes=1))]
    assert machine.cluster.device_count == 4
    machine.validate()


def test_a_new_node_lets_an_elastic_job_grow_beyond_what_was_there() -> None:
    machine = scheduler("1x2", "edf")
    machine.handle(JobSubmitted(0.0, job("a", 1000.0)))
    assert machine.handle(NodeJoined(5.0, Node(name="late", device_count=2))) == [
        Resize(Grant("a", "gpu", (0, 1, 2, 3), nodes=2))
    ]


def test_a_new_kind_takes_the_jobs_that_need_it() -> None:
    machine = scheduler("1x2")
    machine.handle(NodeJoined(5.0, Node(name="npu", device_count=2, kind="npu")))
    said = machine.handle(JobSubmitted(6.0, job("a", requested=2, kinds=("npu",), submitted_at=6.0)))
    assert grants(said) == {"a": (2, 3)}
    assert machine.handle(NodeLost(10.0, "npu")) == [Suspend("a")]
    machine.validate()


@pytest.mark.parametrize("order", [("gpu", "npu", "gpu"), ("npu", "gpu", "npu"), ("gpu", "gpu", "npu")])
def test_nodes_of_different_kinds_may_join_in_any_order(order: tuple[str, ...]) -> None:
    machine = scheduler("1x1xgpu+1x1xnpu")
    for number, kind in enumerate(order):
        machine.handle(NodeJoined(float(number), Node(name=f"new-{number}", device_count=1, kind=kind)))
        machine.validate()
    names = [f"{kind}-{i}" for i, kind in enumerate([*order, "gpu", "npu"])]
    said = machine.handle(*(JobSubmitted(9.0, job(name, kinds=(name[:3],), submitted_at=9.0)) for name in names))
    assert sorted(device for devices in grants(said).values() for device in devices) == [0, 1, 2, 3, 4]
    for name, devices in grants(said).items():
        assert machine.cluster.device(devices[0]).kind == name[:3]
    machine.validate()


def test_a_first_node_of_a_new_kind_does_not_keep_old_kinds_from_growing() -> None:
    machine = scheduler("1x1")
    machine.handle(NodeJoined(0.0, Node(name="npu", device_count=1, kind="npu")))
    machine.handle(NodeJoined(1.0, Node(name="gpu", device_count=1)))
    said = machine.handle(*(JobSubmitted(2.0, job(name, kinds=("gpu",))) for name in "ab"))
    assert grants(said) == {"a": (0,), "b": (2,)}
    machine.validate()


def test_a_rigid_job_keeps_what_it_holds_when_the_cluster_grows() -> None:
    machine = scheduler("1x3")
    machine.handle(JobSubmitted(0.0, job("a", requested=4)))
    assert len(machine.devices_of("a")) == 3, "all there is"
    machine.handle(NodeJoined(1.0, Node(name="late", device_count=1)))
    assert machine.state_of("a") is JobState.RUNNING
    machine.validate()


def test_a_failed_worker_stops_its_gang_which_starts_again_at_once() -> None:
    machine = spanning()
    said = machine.handle(WorkerFailed(25.0, "a"))
    assert said == [Suspend("a"), Resume(Grant("a", "gpu", (0, 1, 2, 3), nodes=2))]
    assert machine.remaining("a") == 1000 - 20 * 4
    assert machine.state_of("a") is JobState.RUNNING
    machine.validate()


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (NodeLost(1.0, "node-9"), "no node 'node-9' in this cluster"),
        (NodeJoined(1.0, Node(name="node-0", device_count=7)), "node 'node-0' came back different from what it was"),
        (WorkerFailed(1.0, "waiting"), "job 'waiting' holds no devices, so no worker of it can fail"),
    ],
)
def test_misfortunes_that_cannot_be_are_refused(event: Event, message: str) -> None:
    machine = scheduler("1x2")
    machine.handle(JobSubmitted(0.0, job("a", requested=2)), JobSubmitted(0.0, job("waiting", requested=2)))
    with pytest.raises(EventError, match=message):
        machine.handle(event)
    machine.validate()
    assert machine.handle(JobFinished(50.0, "a")) == [Start(Grant("waiting", "gpu", (0, 1), nodes=1))]


def test_all_nodes_may_be_lost() -> None:
    machine = spanning()
    nodes = machine.cluster.nodes
    assert kinds(machine.handle(NodeLost(10.0, "node-0"), NodeLost(10.0, "node-1"))) == ["Suspend"]
    assert machine.devices_held() == 0
    machine.validate()
    assert kinds(machine.handle(NodeJoined(20.0, nodes[1]))) == ["Resume"]
    assert machine.devices_of("a") == (2, 3)
