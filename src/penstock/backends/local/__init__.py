"""Jobs as processes of this machine: its devices, its Python environments, and agents that start processes."""

from penstock.backends.local.backend import LocalBackend
from penstock.backends.local.devices import Inventory, LocalDevice, discover, fake_devices
from penstock.backends.runs.found_runs import FoundRun, found_runs
from penstock.backends.runs.run_environment import RunEnvironment
from penstock.backends.runs.tenant_users import TenantUsers

__all__ = [
    "FoundRun",
    "Inventory",
    "LocalBackend",
    "LocalDevice",
    "RunEnvironment",
    "TenantUsers",
    "discover",
    "fake_devices",
    "found_runs",
]
