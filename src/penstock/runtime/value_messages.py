"""Small values from one worker to others over a process group, in the encoding of :mod:`value_codec`.

The collectives of PyTorch for objects pickle; these do not.
"""

from typing import Any

import torch
import torch.distributed as dist

from penstock.runtime.value_codec import decode, encode


def gather_values(mine: Any, group: dist.ProcessGroup | None = None) -> list[Any]:
    """Return what every member of a group gives, by rank; with itself alone where there is no group."""
    if group is None:
        return [mine]
    own = _content(mine, group)
    sizes = [torch.empty(1, dtype=torch.int64, device=own.device) for _ in range(dist.get_world_size(group))]
    dist.all_gather(sizes, torch.tensor([own.numel()], device=own.device), group=group)
    lengths = [int(size) for size in sizes]
    padded = torch.zeros(max(lengths), dtype=torch.uint8, device=own.device)
    padded[: own.numel()] = own
    everyone = [torch.empty_like(padded) for _ in lengths]
    dist.all_gather(everyone, padded, group=group)
    return [_value(content[:length]) for content, length in zip(everyone, lengths, strict=True)]


def broadcast_value(value: Any, source: int, group: dist.ProcessGroup | None = None) -> Any:
    """Return the source's value on every rank; ``source`` is a rank of the group."""
    sends = dist.get_rank(group) == source
    content = _content(value, group) if sends else torch.empty(0, dtype=torch.uint8, device=_device(group))
    size = torch.tensor([content.numel()], device=content.device)
    dist.broadcast(size, group=group, group_src=source)
    if not sends:
        content = torch.empty(int(size), dtype=torch.uint8, device=content.device)
    dist.broadcast(content, group=group, group_src=source)
    return value if sends else _value(content)


def send_value(value: Any, to: int, group: dist.ProcessGroup) -> None:
    """Give a value to the process of a global rank, which calls :func:`receive_value`."""
    content = _content(value, group)
    dist.send(torch.tensor([content.numel()], device=content.device), to, group=group)
    dist.send(content, to, group=group)


def receive_value(by: int, group: dist.ProcessGroup) -> Any:
    """Return the value that the process of a global rank sends."""
    size = torch.empty(1, dtype=torch.int64, device=_device(group))
    dist.recv(size, by, group=group)
    content = torch.empty(int(size), dtype=torch.uint8, device=size.device)
    dist.recv(content, by, group=group)
    return _value(content)


def _content(value: Any, group: dist.ProcessGroup | None) -> torch.Tensor:
    return torch.frombuffer(bytearray(encode(value)), dtype=torch.uint8).to(_device(group))


def _value(content: torch.Tensor) -> Any:
    return decode(content.cpu().numpy().data)


def _device(group: dist.ProcessGroup | None) -> torch.device:
    """Where a group takes tensors from: host memory if it can, else the device of this process."""
    kinds = (group or dist.group.WORLD)._device_types  # type: ignore[union-attr]
    return torch.device("cpu") if torch.device("cpu") in kinds else torch.device("cuda", torch.cuda.current_device())
