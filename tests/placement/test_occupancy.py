"""The record of who holds what."""

import pytest

from penstock.core import Cluster, InvariantError
from penstock.placement import Occupancy
from penstock.placement.best_fit import resized
from penstock.placement.seating import _make_way


@pytest.fixture
def occupancy() -> Occupancy:
    """Two nodes of four A's around one of two B's: devices 0-3 and 6-9."""
    return Occupancy(Cluster.parse("1x4xA+1x2xB+1x4xA"), "A")


def test_devices_come_back_sorted_with_the_nodes_they_span(occupancy: Occupancy) -> None:
    occupancy.take(1, (7, 2, 6))
    assert occupancy.devices(1) == (2, 6, 7)
    assert occupancy.nodes_of(1) == 2
    assert (occupancy.capacity, occupancy.free, occupancy.keys()) == (8, 5, (1,))


def test_a_stranger_holds_nothing_and_may_release_it(occupancy: Occupancy) -> None:
    occupancy.release(5)
    assert (occupancy.devices(5), occupancy.nodes_of(5), occupancy.free) == ((), 0, 8)


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ((0,), "where 1110 is free"),
        ((1, 1), "twice"),
        ((4,), "which is no A"),
        ((99,), "which is no A"),
        ((-1,), "which is no A"),
        ((9,), "which is down"),
        ((), "takes no devices"),
    ],
)
def test_what_cannot_be_had_is_refused(occupancy: Occupancy, devices: tuple[int, ...], message: str) -> None:
    occupancy.take(1, (0,))
    occupancy.lose_node(2)
    with pytest.raises(InvariantError, match=message):
        occupancy.take(2, devices)
    assert occupancy.keys() == (1,)
    occupancy.validate()


def test_a_gang_is_taken_once(occupancy: Occupancy) -> None:
    occupancy.take(1, (0,))
    with pytest.raises(InvariantError, match="while holding"):
        occupancy.take(1, (1,))


def test_losing_a_node_releases_whole_gangs(occupancy: Occupancy) -> None:
    occupancy.take(1, (3, 6))
    occupancy.take(2, (7,))
    occupancy.take(3, (0,))
    assert occupancy.lose_node(2) == [1, 2]
    assert (occupancy.keys(), occupancy.capacity, occupancy.free) == ((3,), 4, 3)
    assert occupancy.lose_node(2) == []
    occupancy.restore_node(2)
    occupancy.restore_node(2)
    assert (occupancy.capacity, occupancy.free) == (8, 7)


def test_nodes_of_other_kinds_may_come_and_go(occupancy: Occupancy) -> None:
    assert occupancy.lose_node(1) == []
    occupancy.restore_node(1)
    assert (occupancy.capacity, occupancy.free) == (8, 8)


def test_a_new_node_leaves_old_indices_alone(occupancy: Occupancy) -> None:
    occupancy.take(1, (9,))
    occupancy.add_node(Cluster.parse("1x4xA+1x2xB+2x4xA"))
    occupancy.take(2, (9 + 1, 9 + 4))
    assert (occupancy.devices(1), occupancy.devices(2), occupancy.capacity) == ((9,), (10, 13), 12)
    occupancy.validate()


def test_a_cluster_that_did_not_grow_at_the_end_is_refused(occupancy: Occupancy) -> None:
    with pytest.raises(InvariantError, match="one more node"):
        occupancy.add_node(Cluster.parse("2x4xA+1x2xB+1x4xA"))


def test_fragmentation_is_the_share_of_free_devices_in_used_nodes(occupancy: Occupancy) -> None:
    assert occupancy.fragmentation() == 0.0
    occupancy.take(1, (0,))
    assert occupancy.fragmentation() == pytest.approx(3 / 7)
    occupancy.take(2, (1, 2, 3, 6, 7, 8, 9))
    assert occupancy.fragmentation() == 0.0


def test_fewest_nodes_counts_the_largest_nodes_that_are_up() -> None:
    occupancy = Occupancy(Cluster.parse("1x2+1x8+1x4"), "gpu")
    assert [occupancy.fewest_nodes(width) for width in (1, 8, 9, 12, 13)] == [1, 1, 2, 2, 3]
    occupancy.lose_node(1)
    assert [occupancy.fewest_nodes(width) for width in (4, 5)] == [1, 2]


@pytest.mark.parametrize("array", ["free_per_node", "blocks_per_node", "size_per_node"])
def test_validate_finds_an_index_that_lies(occupancy: Occupancy, array: str) -> None:
    occupancy.take(1, (0, 1))
    occupancy.validate()
    getattr(occupancy, array)[0] += 1
    with pytest.raises(InvariantError):
        occupancy.validate()


def test_validate_finds_a_device_held_twice(occupancy: Occupancy) -> None:
    occupancy.take(1, (0,))
    occupancy.take(2, (1,))
    occupancy._devices[2] = (0,)
    with pytest.raises(InvariantError, match="held twice"):
        occupancy.validate()


@pytest.mark.parametrize(
    ("held", "others", "width", "devices"),
    [
        ((0,), (), 2, (0, 1)),
        ((4,), (0, 6, 7), 2, (4, 5)),  # of the block around it, although the first free device is as lonely
        ((2,), (3,), 2, (0, 2)),  # that block is not free
        ((1, 2), (), 3, (0, 1, 2)),
        ((4, 5), (0, 1), 4, (4, 5, 6, 7)),
    ],
)
def test_a_job_grows_in_the_buddy_block_around_its_devices(
    held: tuple[int, ...], others: tuple[int, ...], width: int, devices: tuple[int, ...]
) -> None:
    occupancy = Occupancy(Cluster.parse("1x8xA"), "A")
    occupancy.take(1, held)
    if others:
        occupancy.take(2, others)
    parts = occupancy.parts(1)
    occupancy.release(1)
    occupancy.assign(1, resized(occupancy, parts, width))
    assert occupancy.devices(1) == devices


@pytest.mark.parametrize(
    ("count", "leaving"),
    [(1, [4]), (2, [3]), (3, [2]), (4, [2, 4])],
)
def test_the_smallest_job_that_is_enough_makes_way_else_the_largest_first(count: int, leaving: list[int]) -> None:
    occupancy = Occupancy(Cluster.parse("1x8xA"), "A")
    for key, devices in ((1, (0, 1)), (2, (2, 3, 4)), (3, (5, 6)), (4, (7,))):
        occupancy.take(key, devices)
    assert _make_way(occupancy, 0, count, {2, 3, 4}) == leaving, "the first may not be moved"
