"""A worker's network interface is the one through which it reaches its agent."""

import socket

import pytest

from penstock.core import AgentAddress
from penstock.runtime.agent import network
from penstock.runtime.agent.network import interface_towards


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
