"""Where processes start: one interface, and the machine at hand as its first implementation."""

from penstock.backends.agent.environment import inherited_environment
from penstock.backends.base import Backend, BackendError, PreparationError
from penstock.backends.local import Inventory, LocalBackend, LocalDevice, TenantUsers, discover, fake_devices

__all__ = [
    "Backend",
    "BackendError",
    "Inventory",
    "LocalBackend",
    "LocalDevice",
    "PreparationError",
    "TenantUsers",
    "discover",
    "fake_devices",
    "inherited_environment",
]
