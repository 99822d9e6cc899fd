"""Which network interface a worker uses: the one through which it reaches its agent, never an assumed one."""

import fcntl
import socket
import struct
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path

from penstock.core import AgentAddress

_SIOCGIFADDR = 0x8915
LOOPBACK = "lo"
SOCKET_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "HCCL_SOCKET_IFNAME")


def interface_towards(agent: AgentAddress) -> str | None:
    """The interface's name; nothing where the system does not tell, so that libraries choose by themselves."""
    if agent.is_local:
        return LOOPBACK if Path("/sys/class/net", LOOPBACK).exists() else None
    with suppress(OSError):
        own = _own_address(agent)
        return next((name for _, name in socket.if_nameindex() if own in _addresses(name)), None)
    return None


def choose_interface(agent: AgentAddress, environ: MutableMapping[str, str]) -> None:
    """Tell gloo, NCCL and HCCL which interface to use, unless somebody has; on one machine only gloo has to know."""
    interface = interface_towards(agent)
    for variable in ("GLOO_SOCKET_IFNAME",) if agent.is_local else SOCKET_INTERFACES:
        if interface is not None:
            environ.setdefault(variable, interface)


def own_address(environ: Mapping[str, str]) -> str:
    """Where others of a world reach this worker: at the interface that gloo was told, or by the machine's name."""
    chosen = _addresses(environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0])
    with suppress(OSError):
        return min(chosen, key=lambda one: ":" in one) if chosen else socket.gethostbyname(socket.gethostname())
    return "127.0.0.1"


def _own_address(agent: AgentAddress) -> str:
    """The address this machine speaks to the agent from. Connecting a datagram socket sends nothing."""
    family, _, _, _, target = socket.getaddrinfo(agent.host, agent.port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(target)
        own: str = probe.getsockname()[0]
        return own


def _addresses(interface: str) -> set[str]:
    found = set()
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        found.add(socket.inet_ntoa(answer[20:24]))
    with suppress(OSError):
        rows = (line.split() for line in Path("/proc/net/if_inet6").read_text().splitlines())
        found |= {socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])) for row in rows if row[-1] == interface}
    return found
