"""One part as its agent sees it: which worker it holds, how far that has come, and the line to its host."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.backends.agent.outputs import WorkerLog
from penstock.backends.agent.part_messages import HOST_ORDERS, HostOrder, SignalOrder, StartOrder
from penstock.backends.agent.parts import PartEnd
from penstock.core import Launch, Usage, Worker


@dataclass(slots=True)
class HostedPart:
    """A part and its host.

    ``gang`` are the workers whose hosts must be there before the order to start goes out, ``master`` the one whose
    machine the others meet on; ``width`` is how many there are. ``started`` counts orders that went out; ``running``:
    the last one has not ended yet.
    """

    name: str
    worker: Worker
    asked_at: float
    log: WorkerLog | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    launch: Launch | None = None
    gang: tuple[str, ...] = ()
    master: str = ""
    width: int = 1
    pending: bool = False
    running: bool = False
    start: int = 0
    order: StartOrder | None = None
    signal: SignalOrder | None = None
    kills: int = 0
    address: str = ""
    port: int = 0
    seq: int = 0
    words: str = ""
    end: PartEnd | None = None
    usage: Usage = field(default_factory=Usage)
    heard_at: float = 0.0
    broken_at: float | None = None
    hung_up: bool = False
    writer: asyncio.StreamWriter | None = None

    @property
    def connected(self) -> bool:
        return self.writer is not None

    @property
    def idle(self) -> bool:
        """Whether its worker has ended and the place is still held."""
        return not self.pending and not self.running

    def send(self, order: HostOrder) -> None:
        """Give an order, if there is a line."""
        if self.writer is not None:
            self.writer.write(HOST_ORDERS.encode(order))

    def attach(self, writer: asyncio.StreamWriter, now: float) -> None:
        """A host has come, or come back."""
        if self.writer is not None:
            self.writer.close()
        self.writer, self.heard_at, self.broken_at, self.hung_up = writer, now, None, False

    def detach(self, now: float, hung_up: bool) -> None:
        """The line is broken; ``hung_up``: the other end closed it, or its system did."""
        self.writer, self.broken_at, self.hung_up = None, now, hung_up
