"""The line between a worker and its agent: JSON lines over a unix socket, kept by one background thread.

Training never waits for this line. What is said goes into a queue, what is heard becomes an *order* that the loop looks
at when it reaches a step border. If the agent vanishes, the thread keeps dialling and says hello again; everything but
progress that was said meanwhile is delivered then. Without an agent there is no thread and every call does nothing.
"""

import json
import logging
import os
import selectors
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.core import PenstockError

_log = logging.getLogger(__name__)
_REDIAL_S = 0.2
_PROGRESS_EVERY_S = 0.5


class ProtocolError(PenstockError):
    """The agent sent something that cannot be understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A set of workers that train together. ``survivors`` were in the world before and hold the state."""

    generation: int
    rank: int
    size: int
    members: tuple[str, ...]
    rendezvous: str
    survivors: tuple[str, ...] = ()

    @classmethod
    def parse(cls, message: dict[str, Any]) -> "World":
        try:
            return cls(
                generation=int(message["generation"]),
                rank=int(message["rank"]),
                size=int(message["size"]),
                members=tuple(message["members"]),
                rendezvous=str(message["rendezvous"]),
                survivors=tuple(message.get("survivors", ())),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"a world needs generation, rank, size, members and rendezvous: {message}") from error


@dataclass(frozen=True, slots=True)
class Leave:
    """This worker is not in the next world."""


Order = World | Leave


class Link:
    """What the loop says to the agent and what it has been told."""

    def __init__(self, socket_path: Path | None, worker: str) -> None:
        self._path = socket_path
        self._worker = worker
        self._heard = threading.Condition()
        self._order: Order | None = None
        self._suspend = False
        self._checkpoint = False
        self._outbox: deque[bytes] = deque()
        self._progress: bytes | None = None
        self._progress_at = 0.0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="penstock-link", daemon=True)
        if socket_path is not None:
            self._wake_r, self._wake_w = socket.socketpair()
            self._thread.start()

    @property
    def has_agent(self) -> bool:
        """Whether there is an agent at all, not whether the line is up right now."""
        return self._path is not None

    @property
    def order(self) -> Order | None:
        """The latest order that nobody acted on yet."""
        with self._heard:
            return self._order

    @property
    def suspend(self) -> bool:
        with self._heard:
            return self._suspend

    def take_order(self, timeout_s: float) -> Order | None:
        """Wait for the latest order and take it off the desk; nothing if none came in time."""
        with self._heard:
            self._heard.wait_for(lambda: self._order is not None, timeout_s)
            order, self._order = self._order, None
            return order

    @property
    def checkpoint(self) -> bool:
        """Whether a checkpoint was asked for and not begun yet."""
        with self._heard:
            return self._checkpoint

    def clear_checkpoint(self) -> None:
        with self._heard:
            self._checkpoint = False

    def progress_due(self) -> bool:
        return self._path is not None and time.monotonic() - self._progress_at >= _PROGRESS_EVERY_S

    def progress(self, *, step: int, total: int, loss: float | None, samples_per_s: float | None) -> None:
        """Say how far training is. Only the latest word counts: older ones are dropped, never queued."""
        if self._path is None:
            return
        self._progress_at = time.monotonic()
        self._progress = _line("progress", step=step, total=total, loss=loss, samples_per_s=samples_per_s)
        self._wake()

    def say(self, kind: str, **fields: object) -> None:
        """Say something that must arrive, even if the agent has to be found again first."""
        if self._path is not None:
            self._outbox.append(_line(kind, **fields))
            self._wake()

    def close(self, flush_s: float = 2.0) -> None:
        """Deliver what is still in the outbox, then hang up."""
        if self._path is None or self._closing:
            return
        deadline = time.monotonic() + flush_s
        while (self._outbox or self._progress) and time.monotonic() < deadline:
            time.sleep(0.005)
        self._closing = True
        self._wake()
        self._thread.join(flush_s)
        self._wake_r.close()
        self._wake_w.close()

    def _wake(self) -> None:
        # A full or closed pipe needs no further byte.
        with suppress(OSError):
            self._wake_w.send(b"x", socket.MSG_DONTWAIT)

    def _run(self) -> None:
        while not self._closing:
            try:
                with socket.socket(socket.AF_UNIX) as line:
                    line.connect(str(self._path))
                    self._talk(line)
            except OSError as error:
                _log.debug("agent not reachable: %s", error)
            if not self._closing:
                time.sleep(_REDIAL_S)

    def _talk(self, line: socket.socket) -> None:
        line.sendall(_line("hello", worker=self._worker, pid=os.getpid(), elastic=True))
        received = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(line, selectors.EVENT_READ)
            selector.register(self._wake_r, selectors.EVENT_READ)
            while not self._closing:
                self._deliver(line)
                for key, _ in selector.select(timeout=1.0):
                    if key.fileobj is not line:
                        self._wake_r.recv(65536)
                    elif not self._receive(received, line.recv(65536)):
                        return

    def _deliver(self, line: socket.socket) -> None:
        """A message leaves the outbox only once it is on the wire."""
        while self._outbox:
            line.sendall(self._outbox[0])
            self._outbox.popleft()
        if progress := self._progress:
            line.sendall(progress)
            if self._progress is progress:
                self._progress = None

    def _receive(self, received: bytearray, chunk: bytes) -> bool:
        received += chunk
        *lines, rest = bytes(received).split(b"\n")
        received[:] = rest
        for line in lines:
            try:
                self._hear(json.loads(line))
            except (ProtocolError, ValueError) as error:
                _log.warning("ignored a message of the agent: %s", error)
        return bool(chunk)

    def _hear(self, message: dict[str, Any]) -> None:
        with self._heard:
            match message.get("type"):
                case "world":
                    self._order = World.parse(message)
                case "leave":
                    self._order = Leave()
                case "suspend":
                    self._suspend = True
                case "checkpoint":
                    self._checkpoint = True
                case other:
                    raise ProtocolError(f"unknown message type {other!r}")
            self._heard.notify_all()


def _line(kind: str, **fields: object) -> bytes:
    return json.dumps({"type": kind, **fields}).encode() + b"\n"
