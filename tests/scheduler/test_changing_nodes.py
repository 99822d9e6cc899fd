"""Nodes that come back different, and devices that fail alone."""

import pytest

from penstock.core import (
    Deadline,
    DeviceLost,
    DeviceRestored,
    EventError,
    JobSubmitted,
    Node,
    NodeChanged,
    NodeJoined,
    NodeLost,
    Suspend,
    Tick,
)
from tests.scheduler.build import grants, job, kinds, scheduler


def test_a_node_with_fewer_devices_stops_its_gangs_and_gets_new_indices() -> None:
    machine = scheduler("2x4", "fifo")
    machine.handle(JobSubmitted(0.0, job("a", requested=4)), JobSubmitted(0.0, job("b", requested=4)))
    assert machine.devices_of("b") == (4, 5, 6, 7)
    told = machine.handle(NodeChanged(10.0, Node(name="node-0", device_count=2)))
    assert told[0] == Suspend("a")
    assert machine.devices_of("b") == (4, 5, 6, 7), "who is elsewhere is not disturbed"
    assert machine.capacity("gpu") == 6
    assert machine.cluster.devices_of(2) == range(8, 10)
    assert "node-0 came back with other devices" in machine.why("a").entries[-1].text
    machine.validate()
    told = machine.handle(JobSubmitted(20.0, job("c", requested=2, submitted_at=20.0)))
    assert grants(told) == {"c": (8, 9)}


def test_a_node_may_come_back_with_more_devices_or_of_another_kind() -> None:
    machine = scheduler("2x2", "fifo")
    machine.handle(NodeLost(1.0, "node-0"), NodeChanged(2.0, Node(name="node-0", device_count=8)))
    assert machine.capacity("gpu") == 10
    machine.handle(NodeChanged(3.0, Node(name="node-1", device_count=2, kind="B")))
    assert (machine.capacity("gpu"), machine.capacity("B")) == (8, 2)
    told = machine.handle(JobSubmitted(4.0, job("b", kinds=("B",), requested=2, submitted_at=4.0)))
    assert grants(told) == {"b": (12, 13)}
    machine.handle(NodeLost(5.0, "node-1"))
    assert machine.devices_of("b") == ()
    machine.handle(NodeJoined(6.0, Node(name="node-1", device_count=2, kind="B")))
    assert machine.devices_of("b") == (12, 13)
    machine.validate()


def test_another_description_of_the_same_devices_disturbs_nobody() -> None:
    machine = scheduler("2x2", "fifo")
    machine.handle(JobSubmitted(0.0, job("a", requested=2)))
    told = machine.handle(NodeChanged(1.0, Node(name="node-0", device_count=2, rack="elsewhere")))
    assert told == []
    assert machine.cluster.nodes[0].rack == "elsewhere"
    assert machine.devices_of("a") == (0, 1)


def test_a_node_that_nobody_knew_simply_joins() -> None:
    machine = scheduler("1x2", "fifo")
    machine.handle(NodeChanged(1.0, Node(name="new", device_count=4)))
    assert machine.capacity("gpu") == 6


def test_a_promise_that_a_change_endangers_is_excused() -> None:
    machine = scheduler("1x4", "deadline")
    machine.handle(JobSubmitted(0.0, job("a", 360.0, goal=Deadline(100.0))))
    machine.handle(NodeChanged(10.0, Node(name="node-0", device_count=1)))
    assert machine._state.record("a").excuse == "node-0 came back with other devices"
    machine.validate()


def test_a_job_too_wide_for_what_is_left_waits_until_there_is_more() -> None:
    machine = scheduler("1x4", "fifo")
    machine.handle(JobSubmitted(0.0, job("a", at_least=4, requested=4)))
    machine.handle(NodeChanged(10.0, Node(name="node-0", device_count=2)))
    assert machine.devices_of("a") == ()
    machine.handle(NodeChanged(20.0, Node(name="node-0", device_count=4)))
    assert len(machine.devices_of("a")) == 4
    machine.validate()


def test_a_device_that_fails_alone_takes_its_gang_and_nothing_else() -> None:
    machine = scheduler("1x4", "fifo")
    machine.handle(JobSubmitted(0.0, job("a", requested=2)), JobSubmitted(0.0, job("b", requested=2)))
    told = machine.handle(DeviceLost(10.0, "node-0", 1))
    assert kinds(told) == ["Suspend"]
    assert machine.devices_of("b") == (2, 3)
    assert machine.capacity("gpu") == 3
    assert "device 1 of node-0 was lost" in machine.why("a").entries[-1].text
    machine.validate()
    assert grants(machine.handle(DeviceRestored(20.0, "node-0", 1))) == {"a": (0, 1)}
    machine.validate()


def test_a_device_stays_broken_while_its_node_comes_and_goes() -> None:
    machine = scheduler("1x4", "fifo")
    machine.handle(DeviceLost(1.0, "node-0", 0), DeviceLost(1.0, "node-0", 0))
    machine.handle(NodeLost(2.0, "node-0"), DeviceRestored(2.5, "node-0", 3))
    machine.handle(NodeJoined(3.0, machine.cluster.nodes[0]))
    assert machine.capacity("gpu") == 3
    machine.handle(NodeLost(4.0, "node-0"), DeviceRestored(5.0, "node-0", 0))
    machine.handle(NodeJoined(6.0, machine.cluster.nodes[0]), Tick(7.0))
    assert machine.capacity("gpu") == 4
    machine.validate()


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (DeviceLost(1.0, "node-0", 4), "no device 4 in node-0; it has 4"),
        (DeviceLost(1.0, "nowhere", 0), "no node 'nowhere' in this cluster"),
        (DeviceRestored(1.0, "node-0", -1), "no device -1 in node-0"),
    ],
)
def test_a_device_that_is_not_there_cannot_fail(event: DeviceLost, message: str) -> None:
    with pytest.raises(EventError, match=message):
        scheduler("1x4").handle(event)
