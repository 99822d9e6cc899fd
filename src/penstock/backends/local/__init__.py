"""Jobs as processes of this machine: one detached agent for each run, files and a socket between it and the server.

The server may die at any moment and a later one finds every run again, because nothing about a run lives in the
server's memory: what to run is in ``launch.json``, what happened in ``reports.jsonl``, and whether the agent lives is
told by a lock that the kernel takes back when it does not.
"""

from penstock.backends.local.backend import LocalBackend
from penstock.backends.local.devices import Inventory, LocalDevice, discover, fake_devices
from penstock.backends.local.found_runs import FoundRun, found_runs
from penstock.backends.local.tenant_users import TenantUsers

__all__ = [
    "FoundRun",
    "Inventory",
    "LocalBackend",
    "LocalDevice",
    "TenantUsers",
    "discover",
    "fake_devices",
    "found_runs",
]
