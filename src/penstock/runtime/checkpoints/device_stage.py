"""Room on the device for a snapshot on its way to the host.

A copy to the host takes twenty milliseconds for a gigabyte, and an optimizer may not change what is not yet copied.
Within the device's memory the same takes less than one. So where that memory has room to spare, the state is copied
there first; the optimizer waits for this alone, and the way to the host happens beside the steps that follow.

The room is asked for anew with every snapshot and given back when it has arrived: it stays with PyTorch's allocator,
which hands it out again if training runs short.
"""

from collections.abc import Callable

import torch

_SHARE = 0.5
"""Of the memory that nobody has taken, what a snapshot may take at first."""


def free_device_bytes(device: torch.device) -> int:
    """What no process has taken from the device."""
    free, _ = torch.cuda.mem_get_info(device)
    return free


class DeviceStage:
    """Decides whether a snapshot may pass through memory of the device; what was granted once is granted again."""

    def __init__(self, free_bytes: Callable[[torch.device], int] = free_device_bytes) -> None:
        self._free_bytes = free_bytes
        self._granted = 0

    def room(self, size: int, device: torch.device) -> torch.Tensor | None:
        """So many bytes on the device, or nothing where training might miss them."""
        if size > self._granted and size > _SHARE * self._free_bytes(device):
            return None
        try:
            found = torch.empty(size, dtype=torch.uint8, device=device)
        except torch.OutOfMemoryError:
            self._granted = 0
            return None
        self._granted = max(self._granted, size)
        return found
