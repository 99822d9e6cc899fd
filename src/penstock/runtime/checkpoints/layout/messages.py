"""Bytes from one worker to another, in pieces of bounded size."""

import torch
import torch.distributed as dist

_PIECE = 64 << 20

Traffic = list[tuple[dist.Work, torch.Tensor]]
"""What is under way, each with the memory that must live until it has arrived."""


def send_bytes(content: torch.Tensor, to: int, group: dist.ProcessGroup | None) -> Traffic:
    """Begin to send a stretch of bytes."""
    return [
        (_begun(dist.isend(piece, group=group, group_dst=to)), piece)
        for piece in torch.split(content, _PIECE)
        if piece.numel()
    ]


def begin_to_receive(room: torch.Tensor, by: int, group: dist.ProcessGroup | None) -> Traffic:
    """Have a stretch of bytes filled with what somebody sends; several may send at the same time."""
    return [
        (_begun(dist.irecv(piece, group=group, group_src=by)), piece)
        for piece in torch.split(room, _PIECE)
        if piece.numel()
    ]


def finish(traffic: Traffic) -> None:
    for work, _ in traffic:
        work.wait()


def _begun(work: dist.Work | None) -> dist.Work:
    assert work is not None
    return work
