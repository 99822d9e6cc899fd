"""The limits of a run while it lives: as much as its workers' devices allow, and a word when they were reached."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from penstock.backends.agent.containers import ContainerLaunch
from penstock.backends.agent.control_groups import ControlGroup, end_groups, enter_groups
from penstock.core import NO_LIMITS, Launch, ResourceLimits, format_bytes


@dataclass(slots=True)
class RunLimits:
    """What the workers of a run on this machine may use together, enforced by ``group`` where there is one."""

    limits: ResourceLimits
    group: ControlGroup | None = None
    devices: int = 1

    @classmethod
    def of(cls, launch: Launch, directory: Path) -> "RunLimits":
        """A container is limited by whoever runs it; other runs get a group of their own, if the kernel lets us."""
        container = ContainerLaunch.of(launch, None)
        if container is not None and container.limits_itself:
            return cls(NO_LIMITS)
        group = ControlGroup.create(f"{_prefix(directory)}{os.getpid()}", launch.limits)
        return cls(launch.limits, group)

    @property
    def complaint(self) -> str:
        """What to tell a person whose limits nobody enforces."""
        if self.group is not None or not self.limits.any:
            return ""
        return (
            "its limits of memory and processors are not enforced: this user may make no control groups here; run the "
            "server as root, or in a unit of systemd with Delegate=yes"
        )

    @property
    def memory_bytes(self) -> int | None:
        """What the processes of the run may hold together, if that is enforced."""
        return None if self.group is None else self.limits.of(self.devices).memory_bytes

    @property
    def memory_peak_bytes(self) -> int | None:
        return None if self.group is None else self.group.memory_peak

    def hold(self, devices: int) -> None:
        """The run has workers on so many devices of this machine; without any, it keeps what one may use."""
        self.devices = max(1, devices)
        if self.group is not None:
            self.group.limit(self.limits.of(self.devices))

    def reached(self) -> str:
        """Why a process was killed, if memory was the reason; nothing else is known here."""
        if self.group is None or not self.group.ran_out_of_memory():
            return ""
        most = format_bytes(self.memory_bytes or 0)
        what = "1 device" if self.devices == 1 else f"{self.devices} devices"
        return f"out of memory: its processes reached the limit of {most} (limits.memory for {what})"

    def end(self) -> None:
        """End whoever is left, wherever they have moved, and the group."""
        if self.group is not None:
            self.group.end()


def end_limited(launch: Launch, directory: Path) -> None:
    """End what is left in the groups of a run whose agent was killed."""
    if launch.limits.any:
        end_groups(_prefix(directory))


def enter_limited(directory: Path) -> None:
    """Have this process, and all it starts, count as processes of a run and end with its groups, where it has any."""
    enter_groups(_prefix(directory))


def _prefix(directory: Path) -> str:
    """How groups of a run are called: after its directory, because run ids are not unique on a machine."""
    return f"penstock-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]}-"
