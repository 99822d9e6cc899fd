"""Who is on which device: a shared lock for each device a worker of this run uses, in a directory all runs know.

A run that takes over a device asks whether others are still there and waits for them, so devices change hands as
quickly as the leaver allows and nobody needs to guess how long that is. Locks are the kernel's: an agent that is killed
holds none. They are shared, because several runs on one device are allowed when a server says so.
"""

import fcntl
import os
from pathlib import Path

from penstock.core import DeviceSlot


class DeviceLocks:
    """The devices of one run. Costs one open file for each device in use."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._directory = directory
        self._held: dict[DeviceSlot, int] = {}
        self._users: dict[str, DeviceSlot] = {}

    def take(self, worker_id: str, device: DeviceSlot) -> None:
        """A worker starts on a device, whoever else is there."""
        self._users[worker_id] = device
        if device not in self._held:
            self._held[device] = self._open(device)
            fcntl.flock(self._held[device], fcntl.LOCK_SH)

    def release(self, worker_id: str) -> None:
        """A worker's process has ended; its device is free unless another of this run is on it."""
        device = self._users.pop(worker_id, None)
        if device is not None and device not in self._users.values():
            os.close(self._held.pop(device))

    def is_free(self, device: DeviceSlot) -> bool:
        """Whether no other run is on a device."""
        if device in self._held:
            return True
        handle = self._open(device)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(handle)
        return True

    def _open(self, device: DeviceSlot) -> int:
        return os.open(self._directory / f"{device.node}.{device.slot}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
