"""Where processes start: one interface, and the machine at hand as its first implementation."""

from penstock.backends.base import Backend, BackendError, PreparationError
from penstock.backends.local import Inventory, LocalBackend, LocalDevice, discover, fake_devices

__all__ = [
    "Backend",
    "BackendError",
    "Inventory",
    "LocalBackend",
    "LocalDevice",
    "PreparationError",
    "discover",
    "fake_devices",
]
