"""The check of one node: everything that can be found out without another one."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from penstock.core import CPU_BUILD, InputError, install_command
from penstock.diagnose.preflight.expectations import expectations
from penstock.diagnose.preflight.numerics import operator_checks, update_checks
from penstock.diagnose.preflight.report import Check, NodeReport, Status
from penstock.diagnose.preflight.speeds import device_speeds, disk_speed
from penstock.diagnose.preflight.surroundings import facts, node_name, surroundings, wall_clock

DEVICES = ("auto", "cpu", "cuda")
DEVICES_CHECK = "devices"
"""What stands for all checks of devices where they cannot be made."""
_QUICK_DISK = 32 << 20
_NEEDS_TORCH = f"PyTorch is not installed: {install_command('runtime')} ({CPU_BUILD})"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCheck:
    """What is checked of a node, and how thoroughly. ``disk_bytes_s`` is what its disk must write at least."""

    device: str = "auto"
    quick: bool = False
    compiled: bool = False
    folder: Path = Path()
    disk_bytes_s: float | None = None
    ports: tuple[int, ...] = (29500,)

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise InputError(f"{self.device!r} is not a device to check", ", ".join(DEVICES))
        if not self.folder.is_dir():
            raise InputError(f"no folder {self.folder}", "a folder on the disk that jobs write to")
        if self.disk_bytes_s is not None and not self.disk_bytes_s > 0:
            raise InputError(f"a disk rate of {self.disk_bytes_s:g} bytes/s", "a positive rate")

    @property
    def words(self) -> list[str]:
        """The same as flags of ``python -m penstock.diagnose.preflight``."""
        rate = [] if self.disk_bytes_s is None else ["--disk-rate", f"{self.disk_bytes_s / 1e6:g}"]
        flags = [flag for flag, on in (("--quick", self.quick), ("--compile", self.compiled)) if on]
        return ["--device", self.device, "--folder", str(self.folder), *flags, *rate]

    def run(self, say: Callable[[str], None] = lambda _: None) -> NodeReport:
        """All checks, one after the other; ``say`` hears what comes next."""
        started = time.monotonic()
        checks: list[Check] = []
        told: dict[str, str] = {}
        say("limits, network and clock")
        checks += surroundings(self.ports)
        say("disk")
        checks += disk_speed(self.folder, self.disk_bytes_s, size=_QUICK_DISK if self.quick else 256 << 20)
        for check, checksum in self._of_devices(say):
            checks.append(check)
            if checksum:
                told["operators"] = checksum
        return NodeReport(
            node=node_name(), seconds=time.monotonic() - started, clock=wall_clock(), facts=facts() | told,
            checks=tuple(checks),
        )  # fmt: skip

    def _of_devices(self, say: Callable[[str], None]) -> Iterator[tuple[Check, str]]:
        if find_spec("torch") is None:
            yield Check(name=DEVICES_CHECK, status=Status.SKIP, figure=_NEEDS_TORCH), ""
            return
        import torch

        device = ("cuda" if torch.cuda.is_available() else "cpu") if self.device == "auto" else self.device
        if device == "cuda" and not torch.cuda.is_available():
            yield Check(name=DEVICES_CHECK, status=Status.FAIL, figure="PyTorch sees no CUDA device", expected="some",
                        next="Look at nvidia-smi, the driver, and whether PyTorch is a CPU build"), ""  # fmt: skip
            return
        for number in range(torch.cuda.device_count() if device == "cuda" else 1):
            yield from self._of_device(device if device == "cpu" else f"cuda:{number}", say)

    def _of_device(self, device: str, say: Callable[[str], None]) -> Iterator[tuple[Check, str]]:
        from penstock.diagnose.preflight.devices import device_name, guarded

        say(f"speeds of {device}")
        known = expectations(device_name(device), is_cpu=device == "cpu")
        seconds = 0.2 if self.quick else 1.0
        yield from guarded(device, "speeds", ((each, "") for each in device_speeds(device, known, seconds=seconds)))
        say(f"operators of {device}, forward and backward")
        yield from guarded(device, "operators", operator_checks(device, quick=self.quick, compiled=self.compiled))
        yield from guarded(device, "updates", ((each, "") for each in update_checks(device)))
