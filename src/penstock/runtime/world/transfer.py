"""State on its way from a worker that has it to those that do not, in pieces of bounded size."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from penstock.runtime.checkpoints.state import Parts, Snapshot, TensorSpec
from penstock.runtime.value_messages import broadcast_value

_PIECE_BYTES = 32 << 20


def send_state(parts: Parts, step: int, source: int) -> None:
    """The source's side of :func:`receive_state`."""
    snapshot = parts.capture(step)
    specs = snapshot.specs()
    broadcast_value((step, [spec.to_row() for spec in specs], snapshot.extras), source)
    for piece in _pieces(specs):
        dist.broadcast(_pack(piece, snapshot.tensors), src=source)


def receive_state(parts: Parts, source: int) -> int:
    """Take over the source's state and return the number of steps it has completed."""
    step, specs, extras = _receive_head(source)
    room = parts.room_for(specs)
    for piece, flat in _receive_pieces(parts, specs, source):
        _unpack(piece, flat, room)
    parts.restore(room, extras)
    return step


def watch_state(parts: Parts, source: int) -> None:
    """Take part in the broadcast without using it: this worker is up to date."""
    _, specs, _ = _receive_head(source)
    for _ in _receive_pieces(parts, specs, source):
        pass


def equalize(tensors: list[torch.Tensor], source: int) -> None:
    """Give everyone the source's values in place."""
    own = {str(index): tensor for index, tensor in enumerate(tensors)}
    for piece in _pieces(Snapshot(step=0, tensors=own, extras={}).specs()):
        flat = _pack(piece, own)
        dist.broadcast(flat, src=source)
        _unpack(piece, flat, own)


def _pack(piece: list[TensorSpec], tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensors[spec.key].detach().reshape(-1) for spec in piece])


@torch.no_grad()
def _unpack(piece: list[TensorSpec], flat: torch.Tensor, tensors: dict[str, torch.Tensor]) -> None:
    start = 0
    for spec in piece:
        tensors[spec.key].copy_(flat[start : start + spec.count].view(spec.shape))
        start += spec.count


def _receive_head(source: int) -> tuple[int, list[TensorSpec], dict[str, Any]]:
    step, rows, extras = broadcast_value(None, source)
    return step, [TensorSpec.from_row(row) for row in rows], extras


def _receive_pieces(
    parts: Parts, specs: list[TensorSpec], source: int
) -> Iterator[tuple[list[TensorSpec], torch.Tensor]]:
    for piece in _pieces(specs):
        count = sum(spec.count for spec in piece)
        flat = torch.empty(count, dtype=piece[0].dtype, device="cpu" if piece[0].host else parts.device)
        dist.broadcast(flat, src=source)
        yield piece, flat


def _pieces(specs: list[TensorSpec]) -> Iterator[list[TensorSpec]]:
    """Neighbours of one type and place, together up to the piece size; empty tensors need no transport."""
    kinds: dict[tuple[torch.dtype, bool], list[TensorSpec]] = {}
    for spec in specs:
        if spec.bytes:
            kinds.setdefault((spec.dtype, spec.host), []).append(spec)
    for members in kinds.values():
        piece: list[TensorSpec] = []
        for spec in members:
            if piece and sum(one.bytes for one in piece) + spec.bytes > _PIECE_BYTES:
                yield piece
                piece = []
            piece.append(spec)
        yield piece
