"""Devices are known to backends by node and slot: what index a scheduler gave them never leaves the platform."""

from pathlib import Path

from penstock.core import DeviceSlot, Node
from tests.control.build import Platform, platform

A, B = Node(name="a", device_count=2), Node(name="b", device_count=4)


def places(world: Platform, job: str) -> set[DeviceSlot]:
    run = world.backend.all_runs[world.record(job).run_id]
    return {worker.place for worker in run.launch.workers}


def all_of(*nodes: Node) -> set[DeviceSlot]:
    return {DeviceSlot(node.name, slot) for node in nodes for slot in range(node.device_count)}


def test_a_backend_that_lists_its_nodes_in_another_order_runs_the_same_devices(tmp_path: Path) -> None:
    with platform(tmp_path, nodes=(A, B)) as world:
        first = world.submit(work=1000, at_least=2, at_most=2)
        second = world.submit(work=1000, at_least=4, at_most=4)
        world.passes(3)
        held = {job: places(world, job) for job in (first, second)}
        assert held == {first: all_of(A), second: all_of(B)}
        world.backend.nodes_there = (B, A)
        world.restart()
        world.passes(5)
        assert {job: places(world, job) for job in (first, second)} == held
        assert [call for call in world.backend.calls if call[0] == "resize"] == []


def test_a_node_that_left_comes_back_behind_the_others_and_means_itself(tmp_path: Path) -> None:
    with platform(tmp_path, nodes=(A, B)) as world:
        staying = world.submit(work=1000, at_least=4, at_most=4)
        world.passes(3)
        assert places(world, staying) == all_of(B)
        world.backend.nodes_there = (B,)
        world.passes(5)
        world.backend.nodes_there = (B, A)
        world.passes(5)
        late = world.submit(work=100, at_least=2, at_most=2)
        world.passes(5)
        assert places(world, late) == all_of(A)
        assert places(world, staying) == all_of(B)
        world.restart()
        world.passes(5)
        assert (places(world, late), places(world, staying)) == (all_of(A), all_of(B))
