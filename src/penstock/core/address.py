"""Where an agent listens for the workers of its run: a socket of this machine, or a port that other machines reach.

An address of a port may name the fingerprint of the certificate that its agent shows; the line is encrypted then.
"""

import re
import socket
from dataclasses import dataclass

from penstock.core.errors import InputError

_UNIX, _TCP, _TLS = "unix:", "tcp://", "tls://"
_PIN = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class AgentAddress:
    """``unix:/path``, ``tcp://host:port`` or ``tls://host:port/fingerprint``; the form in which addresses travel.

    >>> AgentAddress.parse("tcp://10.0.0.7:2900").port
    2900
    >>> str(AgentAddress.parse("tcp://[::1]:80")), AgentAddress.parse("unix:/run/a.sock").path
    ('tcp://[::1]:80', '/run/a.sock')
    """

    path: str = ""
    host: str = ""
    port: int = 0
    pin: str = ""
    """The fingerprint of the agent's certificate, in hexadecimal digits; empty where the line is not encrypted."""

    @classmethod
    def parse(cls, text: str) -> "AgentAddress":
        if text.startswith(f"{_UNIX}/"):
            return cls(path=text.removeprefix(_UNIX))
        place, slash, pin = text.removeprefix(_TLS).partition("/") if text.startswith(_TLS) else (text, "", "")
        host, colon, port = place.removeprefix(_TCP).rpartition(":")
        is_whole = bool(_PIN.fullmatch(pin)) if slash else text.startswith(_TCP)
        if not (is_whole and colon and host and port.isdecimal() and int(port) < 2**16):
            allowed = "unix:/path, tcp://host:port or tls://host:port/fingerprint"
            raise InputError(f"the agent's address {text!r}", allowed)
        return cls(host=host.strip("[]"), port=int(port), pin=pin)

    def __str__(self) -> str:
        if self.path:
            return f"{_UNIX}{self.path}"
        place = f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        return f"{_TLS}{place}/{self.pin}" if self.pin else f"{_TCP}{place}"

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
            line = self._encrypted(line) if self.pin else line
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

    def _encrypted(self, line: socket.socket) -> socket.socket:
        from penstock.core.pinned_tls import check_fingerprint, pinning_context

        wrapped = pinning_context().wrap_socket(line)
        try:
            check_fingerprint(wrapped, self.pin)
        except OSError:
            wrapped.close()
            raise
        return wrapped
