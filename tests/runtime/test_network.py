"""A worker's network interface is the one through which it reaches its agent."""

import importlib.machinery
import socket
import sys
import types

import pytest
import torch

from penstock.core import AgentAddress
from penstock.runtime.agent import network
from penstock.runtime.agent.network import choose_interface, interface_towards
from penstock.runtime.world import accelerators, group


@pytest.mark.parametrize("address", ["unix:/run/a.sock", "tcp://127.0.0.1:80", "tcp://localhost:80", "tcp://[::1]:80"])
def test_an_agent_of_this_machine_is_reached_by_the_loopback(address: str) -> None:
    assert interface_towards(AgentAddress.parse(address)) == "lo"


def test_another_machine_is_reached_by_the_interface_that_has_the_route(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo"), (2, "eth0"), (3, "ib0")])
    monkeypatch.setattr(network, "_own_address", lambda _agent: "10.1.0.5")
    addresses = {"lo": {"127.0.0.1"}, "eth0": {"192.168.0.5"}, "ib0": {"10.1.0.5", "fe80::1"}}
    monkeypatch.setattr(network, "_addresses", addresses.__getitem__)
    assert interface_towards(AgentAddress.parse("tcp://10.1.0.1:2900")) == "ib0"


def test_the_loopbacks_addresses_are_read_from_the_system() -> None:
    assert "127.0.0.1" in network._addresses("lo")


def test_where_there_is_no_way_libraries_choose_by_themselves() -> None:
    assert interface_towards(AgentAddress.parse("tcp://no-such-host.invalid:1")) is None


def test_every_library_between_workers_is_told_unless_somebody_has_told_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "interface_towards", lambda _agent: "ib0")
    environ = {"NCCL_SOCKET_IFNAME": "eth7"}
    choose_interface(AgentAddress.parse("tcp://10.1.0.1:2900"), environ)
    assert environ == {"NCCL_SOCKET_IFNAME": "eth7", "GLOO_SOCKET_IFNAME": "ib0", "HCCL_SOCKET_IFNAME": "ib0"}
    beside: dict[str, str] = {}
    choose_interface(AgentAddress.parse("unix:/run/a.sock"), beside)
    assert beside == {"GLOO_SOCKET_IFNAME": "ib0"}


def test_npus_speak_hccl_where_their_package_is(monkeypatch: pytest.MonkeyPatch) -> None:
    npu = types.SimpleNamespace(is_available=lambda: True, device_count=lambda: 2, set_device=lambda _device: None)
    package = types.ModuleType("torch_npu")
    package.__spec__ = importlib.machinery.ModuleSpec("torch_npu", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert (accelerators.accelerator(), accelerators.collective_backend(False)) == ("cpu", "gloo")
    monkeypatch.setitem(sys.modules, "torch_npu", package)
    monkeypatch.setattr(torch, "npu", npu, raising=False)
    assert accelerators.collective_backend(False) == "cpu:gloo,npu:hccl"
    with monkeypatch.context() as without:
        without.setattr(npu, "is_available", lambda: False)
        assert accelerators.accelerator() == "cpu", "the package is there, and no device"
    assert accelerators.collective_backend(True) == "gloo"


@pytest.mark.parametrize(("size", "told"), [(1, []), (2, [("over", "1")])])
def test_who_declines_a_world_tells_those_who_wait_in_it(
    size: int, told: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[object] = []
    store = types.SimpleNamespace(set=lambda _, word: said.append(("over", word)))
    monkeypatch.setattr(group, "_store", lambda *_: store)
    group.decline(types.SimpleNamespace(size=size), None)  # type: ignore[arg-type]
    assert said == told, "nobody else waits in a world of one"
