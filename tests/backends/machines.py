"""Machines that this one plays: network namespaces on one bridge, each with an address of its own; they share disks."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.tools import needs


@dataclass(frozen=True, slots=True)
class Machines:
    """Names of the namespaces, and the address under which all of them reach this machine."""

    names: tuple[str, ...]
    host: str

    def prefixes(self) -> dict[str, list[str]]:
        """What to put before a command that is to run on each."""
        return {name: ["ip", "netns", "exec", name] for name in self.names}

    def cut(self, name: str) -> None:
        """Nothing reaches the machine any more, and nobody is told."""
        _ip("link", "set", f"v{name}", "down")


@contextmanager
def played_machines(count: int) -> Iterator[Machines]:
    """So many machines, gone afterwards; skips where namespaces cannot be made."""
    tag = f"{os.getpid() % 10000}"
    bridge, names = f"pb{tag}", tuple(f"m{tag}-{number}" for number in range(count))
    if os.geteuid() != 0:
        needs.skip("network namespaces need root", needs.ROOT)
    needs.engine("ip")
    subnet = f"10.213.{os.getpid() % 250}"
    try:
        _made(bridge, names, subnet)
        yield Machines(names, f"{subnet}.1")
    finally:
        for name in names:
            _ip("netns", "delete", name, check=False)
        _ip("link", "delete", bridge, check=False)


def _made(bridge: str, names: Sequence[str], subnet: str) -> None:
    try:
        _ip("link", "add", bridge, "type", "bridge")
    except subprocess.CalledProcessError as error:
        needs.skip(f"this kernel makes no bridges: {error.stderr.strip()}", "make test where modprobe bridge works")
    _ip("addr", "add", f"{subnet}.1/24", "dev", bridge)
    _ip("link", "set", bridge, "up")
    for number, name in enumerate(names, start=2):
        _ip("netns", "add", name)
        _ip("link", "add", f"v{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", f"v{name}", "master", bridge, "up")
        _ip("-n", name, "addr", "add", f"{subnet}.{number}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("-n", name, "link", "set", "lo", "up")


def _ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=True, text=True)
