"""Nodes that jobs would rather run on: a wish that is granted where there is room, and no condition."""

import pytest

from penstock.core import Cluster, JobSubmitted, Node, NodeChoice, NodeLost
from penstock.placement import PLACEMENTS, placement_named
from penstock.policies import policy_named
from penstock.scheduler import Scheduler
from tests.scheduler.build import grants, job


def wish(*names: str) -> NodeChoice:
    return NodeChoice(prefer=names)


def machine(placement: str = "buddy") -> Scheduler:
    nodes = tuple(Node(name=name, device_count=4) for name in "abc")
    return Scheduler(Cluster(nodes), policy_named("fifo"), placement=placement_named(placement))


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize(("name", "width", "devices"), [("c", 1, {8}), ("b", 4, {4, 5, 6, 7}), ("a", 2, {0, 1})])
def test_a_wish_is_granted_where_there_is_room(placement: str, name: str, width: int, devices: set[int]) -> None:
    found = grants(machine(placement).handle(JobSubmitted(0.0, job("j", requested=width, nodes=wish(name)))))
    assert set(found["j"]) == devices


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_who_finds_no_room_there_runs_elsewhere(placement: str) -> None:
    scheduler = machine(placement)
    scheduler.handle(JobSubmitted(0.0, job("first", requested=2, nodes=wish("b"))))
    found = grants(scheduler.handle(JobSubmitted(1.0, job("second", requested=4, nodes=wish("b")))))
    assert len(found["second"]) == 4
    assert set(found["second"]) != {4, 5, 6, 7}
    scheduler.validate()


def test_several_nodes_are_used_together_and_one_that_is_gone_is_no_wish() -> None:
    scheduler = machine()
    scheduler.handle(NodeLost(0.0, "c"))
    wide = grants(scheduler.handle(JobSubmitted(1.0, job("wide", requested=4, nodes=wish("c", "b")))))
    assert wide["wide"] == (4, 5, 6, 7)
    found = grants(scheduler.handle(JobSubmitted(2.0, job("late", requested=4, nodes=wish("c", "unheard-of")))))
    assert found["late"] == (0, 1, 2, 3)
    scheduler.validate()
