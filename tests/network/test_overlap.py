"""What averaging gradients adds to an iteration: laws that hold whatever the link and the sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import InputError, UnknownNameError
from penstock.network import (
    LINKS,
    NODE_NETWORKS,
    Fabric,
    Group,
    Link,
    allreduce_s,
    data_parallel_s,
    exposed_s,
    fabric_of,
    link_named,
)

links = st.sampled_from(sorted(LINKS))
inside_links = st.sampled_from(sorted(NODE_NETWORKS))
seconds = st.floats(0.0, 10.0)
sizes = st.floats(1.0, 1e10)
counts = st.sampled_from([2, 3, 4, 8, 64])
PLAIN = Link(name="plain", start_s=1e-5, hop_s=1e-6, bandwidth=1e10)


@given(st.lists(seconds, min_size=1, max_size=20), seconds)
def test_at_least_the_last_bucket_and_at_most_all_are_seen(buckets: list[float], backward_s: float) -> None:
    seen = exposed_s(buckets, backward_s)
    assert buckets[-1] <= seen + 1e-9
    assert seen <= sum(buckets) + 1e-9


@given(st.lists(seconds, min_size=1, max_size=20), seconds, seconds)
def test_a_longer_backward_hides_no_less(buckets: list[float], backward_s: float, more_s: float) -> None:
    assert exposed_s(buckets, backward_s + more_s) <= exposed_s(buckets, backward_s) + 1e-9


def test_without_a_backward_nothing_is_hidden() -> None:
    assert exposed_s([1.0, 2.0, 3.0], 0.0) == 6.0
    assert exposed_s([], 5.0) == 0.0


@given(sizes, counts, links, seconds)
def test_gradients_never_take_longer_than_one_by_one(count: float, devices: int, link: str, backward_s: float) -> None:
    added = data_parallel_s(count, devices, link, backward_s, bucket_bytes=1e12)
    assert added == pytest.approx(allreduce_s(count, devices, link)), "one bucket leaves when backward is over"
    assert data_parallel_s(count, 1, link, backward_s) == 0.0
    assert data_parallel_s(0.0, devices, link, backward_s) == 0.0


@given(sizes, counts, links)
def test_more_gradients_add_no_less(count: float, devices: int, link: str) -> None:
    less, more = (data_parallel_s(size, devices, link, 0.05) for size in (count, 2 * count))
    assert less <= more * (1 + 1e-9) + 1e-12


@given(sizes, st.sampled_from([1, 2, 8]), st.sampled_from([1, 2, 16]), st.sampled_from([1, 2, 8]), inside_links)
def test_sharing_a_nodes_network_is_never_faster(
    count: float, inside: int, nodes: int, sharing: int, link: str
) -> None:
    fabric = fabric_of(link)
    alone, shared = Group(inside, nodes), Group(inside, nodes, sharing)
    for ask in (fabric.all_reduce_s, fabric.half_s, fabric.all_to_all_s):
        assert ask(count, alone) <= ask(count, shared) * (1 + 1e-9)
    if nodes > 1:
        assert fabric.half_s(count, shared) <= fabric.all_reduce_s(count, shared) * (1 + 1e-9)


@given(sizes, st.integers(1, 16))
def test_a_message_by_the_network_waits_for_those_sent_beside_it(count: float, senders: int) -> None:
    fabric = Fabric(inside=PLAIN, between=PLAIN)
    assert fabric.send_s(count, by_network=False, senders=senders) == fabric.send_s(count, by_network=False)
    assert fabric.send_s(count, by_network=True, senders=senders) == pytest.approx(
        fabric.send_s(senders * count, by_network=True)
    )


def test_one_device_exchanges_nothing() -> None:
    fabric = fabric_of("nvlink4")
    assert fabric.all_reduce_s(1e9, Group(1)) == fabric.half_s(1e9, Group(1)) == 0.0
    assert fabric.all_to_all_s(1e9, Group(1)) == 0.0


def test_other_published_rates_change_what_they_name_and_nothing_else() -> None:
    usual = fabric_of("pcie4")
    faster = usual.with_rates("a brochure", between=1e12)
    assert faster.inside == usual.inside
    assert faster.between.bandwidth > usual.between.bandwidth
    assert "a brochure" in faster.source
    assert usual.with_rates("nothing") == usual


@pytest.mark.parametrize(("name", "meant"), [("nvlnk4", "nvlink4"), ("pci3", "pcie3"), ("infiniband", "infiniband-")])
def test_an_unknown_link_is_named_with_what_was_meant(name: str, meant: str) -> None:
    with pytest.raises(UnknownNameError, match=meant):
        link_named(name)


def test_a_network_between_nodes_is_no_link_inside_one() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown link inside a node 'ethernet-100g'"):
        fabric_of("ethernet-100g")


@pytest.mark.parametrize("fields", [{"bandwidth": -1.0}, {"start_s": -1.0}, {"hop_s": float("nan")}])
def test_a_link_that_cannot_be_is_refused(fields: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Link(**{"name": "odd", "start_s": 0.0, "hop_s": 0.0, "bandwidth": 1e9, **fields})  # type: ignore[arg-type]
