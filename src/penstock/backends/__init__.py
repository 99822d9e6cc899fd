"""Where processes start: one interface, and the machine at hand as its first implementation."""

from penstock.backends.base import (
    Backend,
    BackendError,
    launch_from_json,
    launch_to_json,
    report_from_json,
    report_to_json,
)
from penstock.backends.local import Inventory, LocalBackend, LocalDevice, discover, fake_devices
from penstock.backends.local.devices import CPU_KIND
from penstock.backends.local.usage import CORE_POWER

__all__ = [
    "CORE_POWER",
    "CPU_KIND",
    "Backend",
    "BackendError",
    "Inventory",
    "LocalBackend",
    "LocalDevice",
    "discover",
    "fake_devices",
    "launch_from_json",
    "launch_to_json",
    "report_from_json",
    "report_to_json",
]
