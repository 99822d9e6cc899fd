"""Clusters by short name and from files."""

import json
from pathlib import Path

import pytest

from penstock.core import ClusterError, UnknownNameError
from penstock.network import fabric_of
from penstock.parallel.devices import USABLE, mesh_from_file, mesh_named


@pytest.mark.parametrize(
    ("text", "nodes", "per_node", "chip", "gigabytes"),
    [
        ("4x8xA100-80GB", 4, 8, "a100-80gb", 80), ("8xA100-40GB", 1, 8, "a100-40gb", 40),
        ("8xV100-32GB", 1, 8, "v100", 32), ("2x4xV100-16GB", 2, 4, "v100", 16), ("2x8xH200", 2, 8, "h200", 141),
        ("1xT4", 1, 1, "t4", 16), ("2x8xAscend-910B", 2, 8, "ascend-910b", 64),
    ],
)  # fmt: skip
def test_short_names(text: str, nodes: int, per_node: int, chip: str, gigabytes: float) -> None:
    cluster = mesh_named(text)
    assert (cluster.nodes, cluster.per_node, cluster.chip.name) == (nodes, per_node, chip)
    assert cluster.chip.memory_bytes == gigabytes * 1e9
    assert cluster.memory_bytes == pytest.approx(USABLE * gigabytes * 1e9)
    assert cluster.fabric == fabric_of(cluster.chip.link)


@pytest.mark.parametrize("text", ["8", "x8xA100", "A100", "8xA100--", ""])
def test_what_is_not_a_cluster(text: str) -> None:
    with pytest.raises(ClusterError, match="Try"):
        mesh_named(text)


def test_no_devices() -> None:
    with pytest.raises(ClusterError, match="both numbers from 1 to 1,000,000"):
        mesh_named("0x8xA100")


def test_unknown_device_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="h200"):
        mesh_named("8xZ9000")


def test_memory_limit_must_fit_the_device() -> None:
    with pytest.raises(ClusterError, match=r"at most the device's 80\.0GB"):
        mesh_named("8xA100").limited(200e9)


def test_parts_are_whole_nodes_or_less_than_one() -> None:
    cluster = mesh_named("4x8xA100")
    assert [cluster.part(n).devices for n in (1, 4, 8, 16)] == [1, 4, 8, 16]
    with pytest.raises(ClusterError, match="33 devices"):
        cluster.part(33)


def test_files_say_what_is_really_there(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(
        "nodes: 2\ndevices_per_node: 8\ndevice: v100\nmemory: 16GB\nlinks: {device: 50GB, network: 25GB}\n",
        encoding="utf-8",
    )
    cluster = mesh_named(str(path))
    assert (cluster.devices, cluster.chip.memory_bytes) == (16, 16e9)
    rates = cluster.fabric.inside.bandwidth, cluster.fabric.between.bandwidth
    assert rates == pytest.approx((0.77 * 50e9, 0.77 * 25e9))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"devices_per_node": 8}, "device is None"),
        ({"device": "a100", "devices_per_node": 0}, "devices_per_node is 0"),
        ({"device": "a100", "devices_per_node": 8, "links": {"network": "fast"}}, "network is 'fast'"),
        ({"device": "a100", "devices_per_node": 8, "gpus": 3}, "gpus"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, fields: dict[str, object], problem: str) -> None:
    path = tmp_path / "site.json"
    path.write_text(json.dumps(fields), encoding="utf-8")
    with pytest.raises((ClusterError, UnknownNameError), match=problem):
        mesh_from_file(path)
