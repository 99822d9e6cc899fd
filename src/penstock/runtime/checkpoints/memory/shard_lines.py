"""Connections over which shards travel to those who hold them.

They are not messages of a process group, because shards are nearly always under way when a machine is lost: gloo never
wakes who is in the middle of a message when its peer dies, only a timeout of minutes does. A connection of one's own
breaks at once, at either end, and whoever hangs up on everybody reaches it like any other.
"""

import os
import platform
import secrets
import socket
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress

import torch
import torch.distributed as dist

from penstock.runtime.agent.network import own_address
from penstock.runtime.value_messages import gather_values

_KEY_BYTES = 16
_PIECE = 64 << 20
_CALL_S, _SILENCE_S = 30.0, 120.0
"""A peer that does not call, or falls silent in the middle of a shard, counts as lost; one that died does at once."""
_LOOPBACK = "127.0.0.1"


class ShardLines:
    """One worker's line to who holds its shard, and those from the ranks whose shards it holds.

    All members of a group make theirs together.
    """

    def __init__(self, group: dist.ProcessGroup, holder: int | None, wards: Sequence[int]) -> None:
        address, key = own_address(os.environ), secrets.token_bytes(_KEY_BYTES)
        self._sender = ThreadPoolExecutor(1, thread_name_prefix="penstock-shard-line")
        with _listener(address) as listener:
            everyone = gather_values((platform.node(), address, listener.getsockname()[1], key), group)
            self._out = None if holder is None else _called(everyone[holder], dist.get_rank(group))
            self._in = dict(_answered(listener, key) for _ in wards)

    def send(self, parts: Sequence[torch.Tensor]) -> "Future[None]":
        """Begin to give bytes to who holds this worker's shard."""
        return self._sender.submit(self._send, parts)

    def receive(self, room: torch.Tensor, by: int) -> None:
        """Fill a stretch of bytes with what a rank sends."""
        _fill(self._in[by], room.numpy().data)

    def close(self) -> None:
        for line in (self._out, *self._in.values()):
            if line is not None:
                with suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)
                line.close()
        self._sender.shutdown()

    def _send(self, parts: Iterable[torch.Tensor]) -> None:
        if self._out is None:
            return
        for piece in (piece for part in parts for piece in torch.split(part, _PIECE)):
            with _patience("who holds this worker's shard takes no more of it"):
                self._out.sendall(piece.numpy().data)


def _listener(address: str) -> socket.socket:
    """Open to this machine alone where all workers are on it, else at all its addresses."""
    if address == _LOOPBACK:
        return socket.create_server((_LOOPBACK, 0))
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))


@contextmanager
def _patience(words: str) -> Iterator[None]:
    try:
        yield
    except TimeoutError as silence:
        raise ConnectionError(words) from silence


def _called(where: tuple[str, str, int, bytes], rank: int) -> socket.socket:
    """A line to somebody, who hears who calls and that it is no stranger."""
    node, address, port, key = where
    with _patience("who holds this worker's shard does not answer"):
        line = socket.create_connection((_LOOPBACK if node == platform.node() else address, port), _CALL_S)
        line.settimeout(_SILENCE_S)
        line.sendall(key + rank.to_bytes(8, "little"))
    return line


def _answered(listener: socket.socket, key: bytes) -> tuple[int, socket.socket]:
    """The next line from a member of this world, and whose it is; strangers are hung up on."""
    listener.settimeout(_CALL_S)
    while True:
        with _patience("a worker whose shard is held here does not call"):
            line, _ = listener.accept()
        line.settimeout(_CALL_S)
        said = bytearray(_KEY_BYTES + 8)
        with suppress(ConnectionError):
            _fill(line, memoryview(said))
        line.settimeout(_SILENCE_S)
        if secrets.compare_digest(said[:_KEY_BYTES], key):
            return int.from_bytes(said[_KEY_BYTES:], "little"), line
        line.close()


def _fill(line: socket.socket, room: memoryview) -> None:
    while len(room):
        with _patience("a peer sends no more of its shard"):
            read = line.recv_into(room)
        if not read:
            raise ConnectionError("a peer is gone in the middle of its shard")
        room = room[read:]
