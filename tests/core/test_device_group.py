"""One grammar for clusters and for what plans are made for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import Cluster, ClusterError, DeviceGroup, parse_device_group
from penstock.parallel import mesh_named


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("16x8", DeviceGroup(16, 8, None, None)),
        ("8xV100-32GB", DeviceGroup(None, 8, "V100", "32GB")),
        ("2x4xascend-910b-64GB", DeviceGroup(2, 4, "ascend-910b", "64GB")),
        (" 1x1xnvidia.com/gpu ", DeviceGroup(1, 1, "nvidia.com/gpu", None)),
        ("4", DeviceGroup(None, 4, None, None)),
    ],
)
def test_what_names_say(text: str, group: DeviceGroup) -> None:
    assert parse_device_group(text) == group


@pytest.mark.parametrize(
    "text", ["", "x8", "0x8", "4x0xA100", "8x", "A100", "8xV100-", "-1x8", "99999999999x8", "4x8x80GB", "8xA100-80TB"]
)
def test_what_is_no_name(text: str) -> None:
    assert parse_device_group(text) is None
    with pytest.raises(ClusterError):
        Cluster.parse(text)
    with pytest.raises(ClusterError):
        mesh_named(text)


@given(nodes=st.integers(1, 99), devices=st.integers(1, 16), kind=st.sampled_from(["A100", "h200", "ascend-910b"]))
def test_clusters_and_meshes_read_the_same_name_alike(nodes: int, devices: int, kind: str) -> None:
    name = f"{nodes}x{devices}x{kind}"
    cluster, mesh = Cluster.parse(name), mesh_named(name)
    assert (len(cluster.nodes), cluster.device_count) == (mesh.nodes, mesh.devices) == (nodes, nodes * devices)
    assert cluster.kinds == (kind,)
