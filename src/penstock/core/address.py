"""Where an agent listens for the workers of its run: a socket of this machine, or a port that other machines reach."""

import socket
from dataclasses import dataclass

from penstock.core.errors import InputError

_UNIX, _TCP = "unix:", "tcp://"


@dataclass(frozen=True, slots=True)
class AgentAddress:
    """``unix:/path`` or ``tcp://host:port``; the one form in which addresses of agents travel.

    >>> AgentAddress.parse("tcp://10.0.0.7:2900").port
    2900
    >>> str(AgentAddress.parse("tcp://[::1]:80")), AgentAddress.parse("unix:/run/a.sock").path
    ('tcp://[::1]:80', '/run/a.sock')
    """

    path: str = ""
    host: str = ""
    port: int = 0

    @classmethod
    def parse(cls, text: str) -> "AgentAddress":
        if text.startswith(f"{_UNIX}/"):
            return cls(path=text.removeprefix(_UNIX))
        host, colon, port = text.removeprefix(_TCP).rpartition(":")
        if not (text.startswith(_TCP) and colon and host and port.isdecimal() and int(port) < 2**16):
            raise InputError(f"the agent's address {text!r}", "unix:/path or tcp://host:port")
        return cls(host=host.strip("[]"), port=int(port))

    def __str__(self) -> str:
        if self.path:
            return f"{_UNIX}{self.path}"
        return f"{_TCP}[{self.host}]:{self.port}" if ":" in self.host else f"{_TCP}{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether whoever reaches it is on the same machine."""
        return bool(self.path) or self.host in ("localhost", "::1") or self.host.startswith("127.")

    def connect(self, timeout_s: float | None = None) -> socket.socket:
        """A connected socket without a timeout of its own; ``timeout_s`` bounds the connecting."""
        if not self.path:
            line = socket.create_connection((self.host, self.port), timeout_s)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        else:
            line = socket.socket(socket.AF_UNIX)
            try:
                line.settimeout(timeout_s)
                line.connect(self.path)
            except OSError:
                line.close()
                raise
        line.settimeout(None)
        return line
