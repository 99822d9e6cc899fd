"""The line between a worker and its agent: messages over a socket, kept by one background thread.

Training never waits for this line. What is said goes into a queue, what is heard becomes an *order* that the loop looks
at when it reaches a step border. If the agent vanishes, the thread keeps dialling and says hello again; everything but
progress that was said meanwhile is delivered then. Without an agent there is no thread and every call does nothing.
"""

import logging
import os
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress

from penstock.core import (
    AGENT_MESSAGES,
    LONGEST_LINE,
    MOST_AT_ONCE,
    WORKER_MESSAGES,
    AgentAddress,
    AgentMessage,
    FinishOrder,
    Hello,
    LeaveOrder,
    MetricsLogged,
    MetricValue,
    PenstockError,
    ProtocolError,
    Refusal,
    StackOrder,
    StacksTaken,
    StepsTimed,
    StepTimes,
    SuspendOrder,
    TrainingProgress,
    WorkerMessage,
    World,
)
from penstock.runtime.watch.stacks import take_stacks

_log = logging.getLogger(__name__)
_REDIAL_S = 0.2
_DIAL_S = 5.0
_PROGRESS_EVERY_S = 0.5
_MOST_WAITING = 5 * MOST_AT_ONCE
"""Values of metrics that wait for the line; of more the oldest are dropped."""

Order = World | LeaveOrder


class RefusedError(PenstockError):
    """The agent does not accept this worker; no world will ever come."""


class AgentLink:
    """What the loop says to the agent and what it has been told; ``elastic``: its world can change while it runs."""

    def __init__(self, agent: AgentAddress | None, worker: str, secret: str = "", *, elastic: bool = True) -> None:
        self._agent = agent
        self._elastic = elastic
        self._worker = worker
        self._secret = secret
        self._heard = threading.Condition()
        self._order: Order | None = None
        self._suspend = False
        self._finish = False
        self._refused = ""
        self._outbox: deque[bytes] = deque()
        self._progress: bytes | None = None
        self._progress_at = 0.0
        self._times: bytes | None = None
        self._metrics: deque[MetricValue] = deque(maxlen=_MOST_WAITING)
        self._metrics_at = 0.0
        self._closing = False
        self._thread = threading.Thread(target=self._run, args=(agent,), name="penstock-link", daemon=True)
        if agent is not None:
            self._wake_r, self._wake_w = socket.socketpair()
            self._thread.start()

    @property
    def has_agent(self) -> bool:
        """Whether there is an agent at all, not whether the line is up right now."""
        return self._agent is not None

    @property
    def order(self) -> Order | None:
        """The latest order that nobody acted on yet."""
        with self._heard:
            return self._order

    @property
    def suspend(self) -> bool:
        with self._heard:
            return self._suspend

    @property
    def finish(self) -> bool:
        """Whether training is over although not all steps are done."""
        with self._heard:
            return self._finish

    def take_order(self, timeout_s: float) -> Order | None:
        """Wait for the latest order and take it; nothing if none came in time."""
        with self._heard:
            self._heard.wait_for(lambda: self._order is not None or self._refused, timeout_s)
            if self._refused:
                raise RefusedError(self._refused)
            order, self._order = self._order, None
            return order

    def progress_due(self) -> bool:
        return self._agent is not None and time.monotonic() - self._progress_at >= _PROGRESS_EVERY_S

    def progress(self, *, step: int, total: int, loss: float | None, samples_per_s: float | None) -> None:
        """Say how far training is. Only the latest word counts: older ones are dropped, never queued."""
        if self._agent is None:
            return
        self._progress_at = time.monotonic()
        message = TrainingProgress(step=step, total=total, loss=loss, samples_per_s=samples_per_s)
        self._progress = WORKER_MESSAGES.encode(message)
        self._wake()

    def time_steps(self, times: StepTimes) -> None:
        """Say how long steps take. Only the latest word counts here too."""
        if self._agent is not None:
            self._times = WORKER_MESSAGES.encode(StepsTimed(times=times))
            self._wake()

    def log(self, values: Iterable[MetricValue]) -> None:
        """Say values of metrics, with others that come soon."""
        if self._agent is None:
            return
        self._metrics.extend(values)
        now = time.monotonic()
        if now - self._metrics_at >= _PROGRESS_EVERY_S:
            self._metrics_at = now
            self._wake()

    def say(self, message: WorkerMessage) -> None:
        """Say something that must arrive, even if the agent has to be found again first."""
        if self._agent is not None:
            self._outbox.append(WORKER_MESSAGES.encode(message))
            self._wake()

    def close(self, flush_s: float = 2.0) -> None:
        """Deliver what is still in the outbox, then hang up."""
        if self._agent is None or self._closing:
            return
        deadline = time.monotonic() + flush_s
        self._wake()
        while (self._outbox or self._progress or self._metrics) and not self._over and time.monotonic() < deadline:
            time.sleep(0.005)
        self._closing = True
        self._wake()
        self._thread.join(flush_s)
        self._wake_r.close()
        self._wake_w.close()

    @property
    def _over(self) -> bool:
        return self._closing or bool(self._refused)

    def _wake(self) -> None:
        # A full or closed pipe needs no further byte.
        with suppress(OSError):
            self._wake_w.send(b"x", socket.MSG_DONTWAIT)

    def _run(self, agent: AgentAddress) -> None:
        while not self._over:
            try:
                with agent.connect(_DIAL_S) as line:
                    self._talk(line)
            except OSError as error:
                _log.debug("agent not reachable: %s", error)
            if not self._over:
                time.sleep(_REDIAL_S)

    def _talk(self, line: socket.socket) -> None:
        hello = Hello(worker=self._worker, pid=os.getpid(), elastic=self._elastic, secret=self._secret)
        line.sendall(WORKER_MESSAGES.encode(hello))
        received = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(line, selectors.EVENT_READ)
            selector.register(self._wake_r, selectors.EVENT_READ)
            while not self._over:
                self._deliver(line)
                for key, _ in selector.select(timeout=1.0):
                    if key.fileobj is not line:
                        self._wake_r.recv(65536)
                    elif not self._receive(received, _waiting(line)):
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
        if times := self._times:
            line.sendall(times)
            self._times = None
        while self._metrics:
            values = [self._metrics.popleft() for _ in range(min(len(self._metrics), MOST_AT_ONCE))]
            line.sendall(WORKER_MESSAGES.encode(MetricsLogged(values=tuple(values))))

    def _receive(self, received: bytearray, chunk: bytes) -> bool:
        received += chunk
        *lines, rest = bytes(received).split(b"\n")
        received[:] = rest
        for line in lines:
            try:
                self._hear(AGENT_MESSAGES.decode(line))
            except ProtocolError as error:
                _log.warning("ignored a message of the agent: %s", error)
        return bool(chunk) and len(rest) <= LONGEST_LINE

    def _hear(self, message: AgentMessage) -> None:
        with self._heard:
            match message:
                case World() | LeaveOrder():
                    self._order = message
                case SuspendOrder():
                    self._suspend = True
                case FinishOrder():
                    self._finish = True
                case StackOrder():
                    self.say(StacksTaken(look=message.look, threads=take_stacks()))
                case Refusal():
                    self._refused = message.reason
                    _log.error("the agent refused this worker: %s", message.reason)
            self._heard.notify_all()


def _waiting(line: socket.socket) -> bytes:
    """What has arrived; an encrypted line may hold more than it shows, read from the socket and not yet by us."""
    chunk = line.recv(65536)
    while isinstance(line, ssl.SSLSocket) and line.pending():
        chunk += line.recv(line.pending())
    return chunk
