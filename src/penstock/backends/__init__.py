"""Where processes start: one interface, and the machine at hand as its first implementation."""

from penstock.backends.agent.environment import inherited_environment
from penstock.backends.base import Backend, BackendError, PreparationError, ShortageError, SilentError
from penstock.backends.local import (
    FoundRun,
    Inventory,
    LocalBackend,
    LocalDevice,
    TenantUsers,
    discover,
    fake_devices,
    found_runs,
)

__all__ = [
    "Backend",
    "BackendError",
    "FoundRun",
    "Inventory",
    "LocalBackend",
    "LocalDevice",
    "PreparationError",
    "ShortageError",
    "SilentError",
    "TenantUsers",
    "discover",
    "fake_devices",
    "found_runs",
    "inherited_environment",
]
