"""Clusters from short words: nodes, kinds, memory, indices and distances."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import DEFAULT_KIND, Cluster, ClusterError, Device, Node, PowerModel, fewest_nodes

MIXED = Cluster.parse("2x8xA100-80GB+4x4xT4")

kinds = st.sampled_from(["gpu", "A100", "T4", "nvidia.com/gpu", "huawei.com/Ascend910", "cpu", "H100-SXM"])
memories = st.sampled_from(["", "", "-80GB", "-16GiB", "-24GB"])
groups = st.builds(
    lambda nodes, devices, kind, memory: f"{nodes}x{devices}x{kind}{memory}",
    st.integers(1, 5), st.integers(1, 9), kinds, memories,
)  # fmt: skip
clusters = st.lists(groups, min_size=1, max_size=4).map(lambda parts: Cluster.parse("+".join(parts)))


def test_several_kinds_and_memory_are_read() -> None:
    assert (MIXED.device_count, MIXED.kinds) == (32, ("A100", "T4"))
    assert (MIXED.capacity("A100"), MIXED.capacity("T4"), MIXED.capacity("V100")) == (16, 16, 0)
    assert [node.name for node in MIXED.nodes] == [f"node-{i}" for i in range(6)]
    assert {node.device_memory for node in MIXED.nodes[:2]} == {80 * 10**9}
    assert {node.device_memory for node in MIXED.nodes[2:]} == {0}


def test_a_kind_that_is_not_given_is_the_default() -> None:
    assert Cluster.parse("1x2").kinds == (DEFAULT_KIND,) == Cluster.parse("1x2-16GB").kinds
    assert Cluster.parse(" 1x2xnvidia.com/gpu + 1x2xcpu ").kinds == ("nvidia.com/gpu", "cpu")


def test_device_indices_run_through_the_nodes() -> None:
    assert [list(MIXED.devices_of(node)) for node in (1, 2)] == [list(range(8, 16)), [16, 17, 18, 19]]
    assert MIXED.device(17) == Device(index=17, node=2, slot=1, kind="T4")
    assert [MIXED.node_of(device) for device in (0, 7, 8, 15, 16, 19, 20, 31)] == [0, 0, 1, 1, 2, 2, 3, 5]


@pytest.mark.parametrize("device", [-1, 32, 1000])
def test_a_device_that_is_not_there_has_no_node(device: int) -> None:
    with pytest.raises(ClusterError, match=rf"device {device}\. Allowed: 0 to 31\."):
        MIXED.node_of(device)


@given(clusters)
def test_every_device_belongs_to_the_node_that_lists_it(cluster: Cluster) -> None:
    listed = [(node, device) for node in range(len(cluster.nodes)) for device in cluster.devices_of(node)]
    assert [device for _, device in listed] == list(range(cluster.device_count))
    assert all(cluster.node_of(device) == node for node, device in listed)
    assert sum(cluster.capacity(kind) for kind in cluster.kinds) == cluster.device_count


def test_racks_fill_in_order_of_nodes() -> None:
    cluster = Cluster.parse("3x1+2x1", nodes_per_rack=2)
    assert cluster.tree() == {
        "spine-0": {"rack-0": ["node-0", "node-1"], "rack-1": ["node-2", "node-3"], "rack-2": ["node-4"]}
    }


def test_distance_counts_hops_up_the_tree() -> None:
    far = Node(name="far", device_count=1, rack="rack-0", spine="spine-1")
    cluster = Cluster((*Cluster.parse("3x2", nodes_per_rack=2).nodes, far))
    assert [cluster.distance(0, other) for other in (0, 1, 2, 4, 6)] == [0, 1, 2, 3, 4]


@given(clusters, st.data())
def test_distance_is_symmetric_and_zero_only_to_itself(cluster: Cluster, data: st.DataObject) -> None:
    devices = st.integers(0, cluster.device_count - 1)
    a, b = data.draw(devices), data.draw(devices)
    assert cluster.distance(a, b) == cluster.distance(b, a)
    assert (cluster.distance(a, b) == 0) == (a == b)


@pytest.mark.parametrize(
    ("given_as", "written_as"),
    [
        ("16x8", "16x8"),
        ("2x8+3x8", "5x8"),
        ("2x8xA100+4x4xT4+2x8xA100", "2x8xA100+4x4xT4+2x8xA100"),
        ("1x8xA100-40GB+1x8xA100-80GB", "1x8xA100-40GB+1x8xA100-80GB"),
        ("1x2xgpu-16GiB", "1x2-16GiB"),
    ],
)
def test_a_cluster_is_written_as_it_is_given(given_as: str, written_as: str) -> None:
    assert str(Cluster.parse(given_as)) == written_as


@given(clusters)
def test_what_is_written_reads_back(cluster: Cluster) -> None:
    assert Cluster.parse(str(cluster)) == cluster


@pytest.mark.parametrize(
    "text",
    [
        "0x8",
        "8x0",
        "8x",
        "x",
        "x8",
        "",
        "8",
        "4x8x",
        "4x8xA100-80",
        "4x8x80GB",
        "4x8xA100-80TB",
        "4x8+",
        "+4x8",
        "2x4+0x4",
    ],
)
def test_what_is_no_cluster_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ClusterError) as caught:
        Cluster.parse(text)
    assert str(caught.value) == (
        f"{text!r} is not a cluster. Allowed: NODESxDEVICES[xKIND[-MEMORY]], both numbers from 1 to 1,000,000, "
        'groups joined by +. Try "16x8", "4x8xA100-80GB" or "8x8xA100+4x4xT4".'
    )


def test_a_cluster_needs_nodes_with_different_names() -> None:
    with pytest.raises(ClusterError, match=r"a cluster without nodes\. Allowed: at least one node\."):
        Cluster(())
    twin = Node(name="twin", device_count=1)
    with pytest.raises(ClusterError, match=r"two nodes called 'twin'\. Allowed: different names\."):
        Cluster((twin, Node(name="other", device_count=1), twin))


@pytest.mark.parametrize("count", [0, -3])
def test_a_node_needs_a_device(count: int) -> None:
    with pytest.raises(ClusterError, match=rf"node 'n' with {count} devices\. Allowed: at least 1\."):
        Node(name="n", device_count=count)


def test_nodes_are_found_by_name() -> None:
    assert MIXED.position("node-3") == 3
    assert Cluster.parse("2x4").position("node-9") is None


def test_a_node_that_is_retired_keeps_its_indices_and_gives_its_name_away() -> None:
    before = Cluster.parse("2x4")
    after = before.without(0).with_node(Node(name="node-0", device_count=2, kind="B"))
    assert after.position("node-0") == 2
    assert after.devices_of(1) == before.devices_of(1)
    assert after.devices_of(2) == range(8, 10)
    assert (after.capacity("gpu"), after.capacity("B"), after.kinds) == (4, 2, ("gpu", "B"))
    assert str(after) == "1x4+1x2xB"


@pytest.mark.parametrize(("count", "per_node", "nodes"), [(1, 8, 1), (8, 8, 1), (9, 8, 2), (3, 1, 3)])
def test_fewest_nodes(count: int, per_node: int, nodes: int) -> None:
    assert fewest_nodes(count, per_node) == nodes


def test_power_is_linear_and_never_leaves_its_bounds() -> None:
    power = PowerModel(idle_w=50.0, peak_w=400.0)
    assert [power.watts(use) for use in (-1.0, 0.0, 0.5, 1.0, 2.0)] == [50.0, 50.0, 225.0, 400.0, 400.0]
