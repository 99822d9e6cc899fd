"""What is known about one kind of device: its fitted kernel model, host costs, memory and power, kept in a folder."""

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from penstock.core import InputError, UnknownNameError
from penstock.predict.hardware import DEVICES, Bound, Chip, ClassPower, device_named
from penstock.predict.iteration import HostCost, IterationModel
from penstock.predict.kernels import KernelModel, OperationTable
from penstock.predict.memory import MemoryModel

SHIPPED = Path(__file__).parent / "profiles"
REFERENCE = "h200"
"""Where what is said about devices nobody measured was learned."""
_DOUBT_OF_OTHER_HOSTS = math.log(2)
_FORMAT = 2
_KERNELS, _ABOUT = "kernels.npz", "profile.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProfile:
    """A device as predictions see it. ``measured`` is false where only its data sheet is known."""

    name: str
    chip: Chip
    iteration: IterationModel
    memory: MemoryModel = field(default_factory=MemoryModel)
    power: ClassPower
    environment: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def unprofiled(cls, chip: Chip) -> "DeviceProfile":
        """From the data sheet, and what kernels, hosts and allocators do on the device that ships; a CPU has nothing
        in common with that one."""
        if chip.name == "cpu":
            model = IterationModel(kernels=KernelModel.unprofiled(chip), serial=True)
            return cls(name=chip.name, chip=chip, iteration=model, power=ClassPower.of(chip))
        known = shipped_profile(REFERENCE)
        model = IterationModel(
            kernels=known.iteration.kernels.carried_to(chip),
            host=replace(known.iteration.host, doubt=_DOUBT_OF_OTHER_HOSTS),
            gap_s=known.iteration.gap_s,
        )
        return cls(name=chip.name, chip=chip, iteration=model, memory=known.memory, power=ClassPower.of(chip))

    @property
    def measured(self) -> bool:
        return self.iteration.kernels.profiled

    @property
    def kind(self) -> str:
        """Whose kernels PyTorch would run: "cuda" or "cpu"."""
        return "cpu" if self.iteration.serial else "cuda"

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.iteration.kernels.save(folder / _KERNELS)
        about = {
            "format": _FORMAT, "name": self.name, "host": asdict(self.iteration.host), "gap_s": self.iteration.gap_s,
            "device_factor": self.iteration.device_factor,
            "serial": self.iteration.serial, "memory": asdict(self.memory),
            "power": {"idle_w": self.power.idle_w, "watts": {str(k): v for k, v in self.power.watts.items()}},
            "operations": self.iteration.kernels.operations.plain(), "environment": self.environment,
        }  # fmt: skip
        (folder / _ABOUT).write_text(json.dumps(about, indent=1))

    @classmethod
    def load(cls, folder: Path) -> "DeviceProfile":
        try:
            about = json.loads((folder / _ABOUT).read_text())
            if about["format"] > _FORMAT:
                raise ValueError(f"it has format {about['format']}, of a newer Penstock")
            power = about["power"]
            watts = {Bound(bound): value for bound, value in power["watts"].items()}
            kernels = KernelModel.load(folder / _KERNELS)
            kernels = replace(kernels, operations=OperationTable.read(about.get("operations", {})))
            model = IterationModel(
                kernels=kernels,
                host=HostCost(**about["host"]),
                gap_s=about["gap_s"],
                serial=about["serial"],
                device_factor=about["device_factor"],
            )
            return cls(
                name=about["name"], chip=kernels.chip, iteration=model, memory=MemoryModel(**about["memory"]),
                power=ClassPower(idle_w=power["idle_w"], watts=watts), environment=about["environment"],
            )  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise InputError(
                f"{folder} does not hold a usable profile: {type(problem).__name__}: {problem}",
                f"formats up to {_FORMAT}", "Measure again with `penstock profile device`",
            ) from None  # fmt: skip


def profile_named(name: str, folders: Sequence[Path] = ()) -> DeviceProfile:
    """The profile measured here, else the one shipped, else what the data sheet says; unknown names get suggestions."""
    for folder in (*folders, own_profiles()):
        if (folder / name / _ABOUT).exists():
            return DeviceProfile.load(folder / name)
    if (SHIPPED / name / _ABOUT).exists():
        return shipped_profile(name)
    try:
        return DeviceProfile.unprofiled(device_named(name))
    except UnknownNameError:
        known = {*DEVICES, *known_profiles(folders)}
        raise UnknownNameError.of("device", name, known, "`penstock profile device` adds this machine") from None


@cache
def shipped_profile(name: str) -> DeviceProfile:
    """Read once by a process: it holds hundreds of arrays, and nobody writes it."""
    return DeviceProfile.load(SHIPPED / name)


def known_profiles(folders: Sequence[Path] = ()) -> tuple[str, ...]:
    """Names of devices that were measured, here or by us."""
    found = {path.parent.name for folder in (*folders, own_profiles(), SHIPPED) for path in folder.glob(f"*/{_ABOUT}")}
    return tuple(sorted(found))


def own_profiles() -> Path:
    """Where ``penstock profile device`` keeps what it measured."""
    given = os.environ.get("PENSTOCK_DATA_DIR")
    if given:
        return Path(given) / "profiles"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "penstock" / "profiles"
