"""Groups inside and across nodes, by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import InputError
from penstock.network import (
    LINKS,
    NODE_NETWORKS,
    Fabric,
    Group,
    Link,
    MeasuredCollectives,
    allgather_s,
    allreduce_s,
    fabric_of,
    ring_allreduce_s,
    tree_allreduce_s,
)

INSIDE = Link(name="inside", start_s=1e-5, hop_s=1e-6, bandwidth=100e9)
BETWEEN = Link(name="between", start_s=2e-5, hop_s=1e-5, bandwidth=40e9)
FABRIC = Fabric(inside=INSIDE, between=BETWEEN)
GB = 1e9


class TestByHand:
    def test_a_ring_of_four(self) -> None:
        """One start, 2 x 3 hops, 2 x 3/4 of the data through every device."""
        assert ring_allreduce_s(GB, 4, INSIDE) == pytest.approx(1e-5 + 6 * 1e-6 + 1.5 * GB / 100e9)

    def test_a_tree_of_eight(self) -> None:
        """Three levels up and three down, twice the data through an inner node."""
        assert tree_allreduce_s(GB, 8, INSIDE) == pytest.approx(1e-5 + 6 * 1e-6 + 2 * GB / 100e9)

    def test_a_ring_over_two_nodes_is_bound_by_their_network(self) -> None:
        """Eight members: 2 x 7/8 of the data at 40 GB/s, both starts, 2 x (3 hops inside and 1 level between)."""
        expected = 3e-5 + 2 * (3 * 1e-6 + 1e-5) + 2 * 7 / 8 * GB / 40e9
        assert FABRIC.all_reduce_s(GB, Group(4, 2)) == pytest.approx(expected)
        assert FABRIC.half_s(GB, Group(4, 2)) == pytest.approx(3e-5 + 3 * 1e-6 + 1e-5 + 7 / 8 * GB / 40e9)

    def test_groups_that_share_the_network_divide_it(self) -> None:
        """Eight groups with one member per node leave each 5 GB/s."""
        expected = 3e-5 + 2 * 2e-5 + 2 * 3 / 4 * GB / 5e9
        assert FABRIC.all_reduce_s(GB, Group(1, 4, sharing=8)) == pytest.approx(expected)

    def test_a_fast_network_leaves_the_link_inside_as_the_bound(self) -> None:
        fast = Fabric(inside=INSIDE, between=Link(name="fast", start_s=0.0, hop_s=0.0, bandwidth=1e15))
        assert fast.all_reduce_s(GB, Group(4, 2)) == pytest.approx(1e-5 + 6e-6 + 2 * 7 / 8 * GB / 100e9)

    def test_everybody_to_everybody(self) -> None:
        """Of four members in each of two nodes, 3/8 stays inside; 4/8 of all four members leaves by the network."""
        expected = 3e-5 + max(3 / 8 * GB / 100e9, 4 * 4 / 8 * GB / 40e9) + 3e-6 + 1e-5
        assert FABRIC.all_to_all_s(GB, Group(4, 2)) == pytest.approx(expected)

    def test_messages(self) -> None:
        assert FABRIC.send_s(GB, by_network=False) == pytest.approx(1.1e-5 + 0.01)
        assert FABRIC.send_s(GB, by_network=True, senders=4) == pytest.approx(3e-5 + 4 * GB / 40e9)


def test_inside_a_node_both_rooms_speak_of_the_same_wire() -> None:
    """What predictions of data parallelism pay is what plans pay."""
    for name in NODE_NETWORKS:
        fabric = fabric_of(name)
        assert fabric.all_reduce_s(1e8, Group(8)) == allreduce_s(1e8, 8, name)
        assert fabric.half_s(1e8, Group(8)) == allgather_s(1e8, 8, name)
        assert name in fabric.source


@given(
    count=st.floats(1e3, 1e10), inside=st.sampled_from([1, 2, 4, 8]), nodes=st.sampled_from([1, 2, 4, 16]),
    link=st.sampled_from(sorted(NODE_NETWORKS)),
)  # fmt: skip
def test_laws(count: float, inside: int, nodes: int, link: str) -> None:
    fabric, group = fabric_of(link), Group(inside, nodes)
    whole, half = fabric.all_reduce_s(count, group), fabric.half_s(count, group)
    assert 0 <= whole <= 2 * half + 1e-12
    ring = whole if nodes > 1 else ring_allreduce_s(count, inside, link)
    assert 0 <= half <= ring, "half a ring is no longer than the whole ring (a tree of few steps may beat both)"
    assert fabric.all_reduce_s(2 * count, group) >= whole
    if nodes > 1:
        assert fabric.all_reduce_s(count, Group(inside, nodes, sharing=4)) >= whole


def test_measured_times_come_first_and_grow_on() -> None:
    measured = MeasuredCollectives({2: (np.array([1e6, 3e6]), np.array([1e-3, 2e-3]))})
    fabric = Fabric(inside=INSIDE, between=BETWEEN, measured=measured)
    assert fabric.all_reduce_s(2e6, Group(2)) == pytest.approx(1.5e-3)
    assert fabric.all_reduce_s(6e6, Group(2)) == pytest.approx(4e-3)
    assert fabric.half_s(2e6, Group(2)) == pytest.approx(0.75e-3)
    with pytest.raises(InputError, match="over 4 devices"):
        fabric.all_reduce_s(2e6, Group(4))


def test_other_rates_keep_the_share_that_is_reached() -> None:
    slow = fabric_of("nvlink3").with_rates("by hand", between=10e9)
    assert slow.between.bandwidth == pytest.approx(7.7e9)
    assert slow.inside == LINKS["nvlink3"]
    assert slow.between.source == "by hand"
