"""What devices can do: published peaks, and the power they draw."""

from penstock.predict.hardware.bounds import Bound
from penstock.predict.hardware.chip import Chip
from penstock.predict.hardware.datasheet import DEVICES, device_named
from penstock.predict.hardware.energy import (
    ClassPower,
    capped_power_w,
    demand_w,
    energy_j,
    slowdown,
)
from penstock.predict.hardware.precision import Precision

__all__ = [
    "DEVICES",
    "Bound",
    "Chip",
    "ClassPower",
    "Precision",
    "capped_power_w",
    "demand_w",
    "device_named",
    "energy_j",
    "slowdown",
]
