"""Bytes from one worker to another, in pieces of bounded size."""

import torch
import torch.distributed as dist

_PIECE = 64 << 20

Sending = list[tuple[dist.Work, torch.Tensor]]
"""What is under way, each with the memory that must live until it has arrived."""


def send_bytes(content: torch.Tensor, to: int, group: dist.ProcessGroup | None) -> Sending:
    """Begin to send a stretch of bytes."""
    found: Sending = []
    for piece in torch.split(content, _PIECE):
        if piece.numel():
            work = dist.isend(piece, group=group, group_dst=to)
            assert work is not None
            found.append((work, piece))
    return found


def receive_bytes(room: torch.Tensor, by: int, group: dist.ProcessGroup | None) -> None:
    """Fill a stretch of bytes with what somebody sends."""
    for piece in torch.split(room, _PIECE):
        if piece.numel():
            dist.recv(piece, group=group, group_src=by)


def finish(sending: Sending) -> None:
    for work, _ in sending:
        work.wait()
