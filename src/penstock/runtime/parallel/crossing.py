"""Handing activations to a stage that is split differently, and gradients back.

Inside a stage samples are divided over the replicas and some tensors over the tensor-parallel processes. Where the
next stage divides them in another way, every receiver takes the samples it needs from whoever has them; tensors that
are divided are put together before they leave and cut again on arrival. PyTorch's pipelining knows only stages that
are all split alike; this is what lets a plan give each stage the split that suits it.
"""

from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor

from penstock.runtime.parallel.collectives import gathered, own_part
from penstock.runtime.parallel.process_layout import Coordinates, ProcessLayout
from penstock.runtime.value_messages import receive_value, send_value

Splits = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Route:
    """Samples ``start`` to ``stop`` of this process's share, exchanged with another process."""

    peer: int
    start: int
    stop: int


@dataclass(slots=True)
class Crossing:
    """The border between this process's stage and a neighbour, in one direction of travel."""

    layout: ProcessLayout
    neighbour: int
    group: dist.ProcessGroup
    outgoing: bool
    _forms: dict[int, list[tuple[torch.Size, torch.dtype]]] = field(default_factory=dict)
    _under_way: list[tuple[dist.Work, Tensor]] = field(default_factory=list)

    @property
    def resplits(self) -> bool:
        return self.layout.tp(self.neighbour) != self.layout.tp(self.layout.place.stage)

    def send(self, tensors: list[Tensor], splits: Splits) -> None:
        """Give every peer the samples it needs; returns before they have arrived."""
        tensors = self._whole(tensors, splits)
        for route in self._routes():
            pieces = [tensor[route.start : route.stop].contiguous() for tensor in tensors]
            if route.peer not in self._forms:
                self._forms[route.peer] = [(piece.shape, piece.dtype) for piece in pieces]
                send_value(self._forms[route.peer], route.peer, self.group)
            self._under_way += [(_sent(piece, route.peer, self.group), piece) for piece in pieces]

    def receive(self, splits: Splits) -> list[Tensor]:
        """This process's share of what the peers send."""
        arrived = [self._from(route) for route in self._routes()]
        tensors = [torch.cat(pieces) for pieces in zip(*arrived, strict=True)]
        return self._parts(tensors, splits)

    def settle(self) -> None:
        """Wait until everything sent has been taken over, so that its memory can be used again."""
        for work, _ in self._under_way:
            work.wait()
        self._under_way.clear()

    def _from(self, route: Route) -> list[Tensor]:
        if route.peer not in self._forms:
            self._forms[route.peer] = receive_value(route.peer, self.group)
        pieces = [
            torch.empty(shape, dtype=dtype, device=self.layout.device) for shape, dtype in self._forms[route.peer]
        ]
        for piece in pieces:
            dist.recv(piece, route.peer, group=self.group)
        return pieces

    def _routes(self) -> list[Route]:
        """Peers in the order of their samples. Sender and receiver agree because both apply the same rule."""
        place, layout = self.layout.place, self.layout
        mine = layout.samples(place.stage, place.replica)
        routes = []
        for peer in layout.stage_coordinates(self.neighbour):
            theirs = layout.samples(peer.stage, peer.replica)
            start, stop = max(mine.start, theirs.start), min(mine.stop, theirs.stop)
            sender, receiver = (place, peer) if self.outgoing else (peer, place)
            if start < stop and sender.tensor == receiver.tensor % self._senders(sender):
                routes.append(Route(peer.rank, start - mine.start, stop - mine.start))
        return routes

    def _senders(self, sender: Coordinates) -> int:
        return self.layout.tp(sender.stage)

    def _whole(self, tensors: list[Tensor], splits: Splits) -> list[Tensor]:
        if not self.resplits:
            return tensors
        group = self.layout.tp_group
        return [t if dim is None else gathered(t, dim, group) for t, dim in zip(tensors, splits, strict=True)]

    def _parts(self, tensors: list[Tensor], splits: Splits) -> list[Tensor]:
        if not self.resplits:
            return tensors
        group = self.layout.tp_group
        return [t if dim is None else own_part(t, dim, group) for t, dim in zip(tensors, splits, strict=True)]


def _sent(piece: Tensor, peer: int, group: dist.ProcessGroup) -> dist.Work:
    work = dist.isend(piece, peer, group=group)
    if work is None:
        raise RuntimeError(f"this process is not in the group it sends to rank {peer} in")
    return work
