"""Nodes that come back different, and devices that fail alone."""

import random

import pytest

from penstock.core import (
    Deadline,
    DeviceLost,
    DeviceRestored,
    Event,
    EventError,
    JobFinished,
    JobSubmitted,
    Node,
    NodeChanged,
    NodeClosed,
    NodeJoined,
    NodeLost,
    Suspend,
    Tick,
    Verdict,
)
from penstock.scheduler import Scheduler
from penstock.scheduler.testing import CheckedWorld
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


def test_a_closed_node_is_left_by_those_that_can_resume_and_empties_as_the_others_end() -> None:
    machine = scheduler("2x4", "unified")
    machine.handle(
        JobSubmitted(0.0, job("plain", 400.0, at_least=2, at_most=2, resumable=False)),
        JobSubmitted(0.0, job("elastic", 4000.0)),
    )
    (closed,) = {machine.cluster.device(device).node for device in machine.devices_of("plain")}
    name, held = machine.cluster.nodes[closed].name, machine.devices_of("plain")
    told = machine.handle(NodeClosed(10.0, name, f"{name} was drained by bob"))
    assert machine.devices_of("plain") == held
    assert not any(isinstance(each, Suspend) and each.job_id == "plain" for each in told)
    assert machine.capacity("gpu") == 6, "free devices are out of use at once"
    assert not {machine.cluster.device(device).node for device in machine.devices_of("elastic")} & {closed}
    assert "was drained by bob; it cannot resume, so it stays there until it ends" in str(machine.why("plain"))
    assert Scheduler.from_data(machine.to_data(), machine.policy).to_data() == machine.to_data()
    late = job("late", 800.0, submitted_at=20.0, at_least=4, goal=Deadline(330.0))
    machine.handle(JobSubmitted(20.0, late))
    quote = machine.quote_of("late")
    assert quote is not None
    assert quote.verdict is Verdict.PROMISED, "four devices of the other node are enough"
    machine.handle(JobSubmitted(21.0, job("more", 1000.0, submitted_at=21.0, at_least=4, goal=Deadline(400.0))))
    quote = machine.quote_of("more")
    assert quote is not None
    assert quote.verdict is not Verdict.PROMISED, "the devices of the one that stays are gone when it ends"
    machine.handle(JobFinished(200.0, "plain"))
    machine.validate()
    assert machine.capacity("gpu") == 4
    machine.handle(NodeJoined(210.0, machine.cluster.nodes[closed]))
    assert machine.capacity("gpu") == 8
    machine.validate()


@pytest.mark.parametrize("policy", ["fifo", "deadline", "unified", "srtf", "elasticflow"])
@pytest.mark.parametrize("seed", range(4))
def test_nodes_are_closed_and_opened_under_every_policy(policy: str, seed: int) -> None:
    rng, at, script = random.Random(seed), 0.0, list[Event]()
    machine = scheduler("3x4", policy, slot=rng.choice((0.0, 1.0)))
    for number in range(40):
        at += rng.choice((1.0, 5.0, 20.0))
        node = rng.choice(machine.cluster.nodes)
        wanted = {"resumable": rng.random() < 0.5, "at_most": rng.choice((1, 2, 4, 8)), "submitted_at": at}
        goal = {"goal": Deadline(at + rng.choice((50.0, 400.0)))} if rng.random() < 0.4 else {}
        submitted = JobSubmitted(at, job(f"{number}", rng.choice((20.0, 200.0)), **wanted, **goal))
        script.append(rng.choice((submitted, submitted, NodeClosed(at, node.name), NodeJoined(at, node))))
    at += 1000.0
    script += [NodeJoined(at, node) for node in machine.cluster.nodes]
    CheckedWorld(machine).run(script, [event.at for event in script])
    machine.validate()
    assert machine.active() == []


def test_a_node_that_keeps_its_devices_keeps_the_jobs_on_them() -> None:
    machine = scheduler("2x4", "fifo")
    machine.handle(*(JobSubmitted(0.0, job(name, requested=2, resumable=False)) for name in "abc"))
    assert [machine.devices_of(name) for name in "abc"] == [(0, 1), (2, 3), (4, 5)]
    told = machine.handle(NodeChanged(10.0, Node(name="node-0", device_count=6), keeps=True))
    assert told == []
    assert [machine.devices_of(name) for name in "abc"] == [(8, 9), (10, 11), (4, 5)]
    assert machine.remaining("a", 10.0) == pytest.approx(80.0)
    told = machine.handle(NodeChanged(20.0, Node(name="node-0", device_count=2), keeps=True))
    assert [each.job_id for each in told if isinstance(each, Suspend)] == ["b"], "its devices are gone"
    assert machine.devices_of("a") == (14, 15)
    machine.validate()
    assert Scheduler.from_data(machine.to_data(), machine.policy).to_data() == machine.to_data()


def test_single_devices_are_closed_and_empty_as_their_jobs_end() -> None:
    machine = scheduler("1x4", "unified")
    machine.handle(JobSubmitted(0.0, job("plain", 400.0, at_least=2, at_most=2, resumable=False)))
    held = machine.devices_of("plain")
    machine.handle(NodeClosed(1.0, "node-0", slots=(held[1], next(iter({0, 1, 2, 3} - set(held))))))
    assert machine.emptying == frozenset(), "the node itself takes jobs"
    assert machine.devices_of("plain") == held
    assert machine.capacity("gpu") == 3
    machine.handle(JobFinished(200.0, "plain"))
    assert machine.capacity("gpu") == 2
    machine.handle(NodeClosed(201.0, "node-0"), NodeJoined(202.0, machine.cluster.nodes[0]))
    assert machine.capacity("gpu") == 4
    machine.validate()


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
