"""Where processes start: one interface, the machine at hand, and engines that run clusters."""

from typing import TYPE_CHECKING

from penstock.backends.agent.environment import inherited_environment
from penstock.backends.agent.logs import read_log
from penstock.backends.base import Backend, BackendError, PreparationError, ShortageError, SilentError
from penstock.backends.local import (
    FoundRun,
    Inventory,
    LocalBackend,
    LocalDevice,
    RunEnvironment,
    TenantUsers,
    discover,
    fake_devices,
    found_runs,
)
from penstock.tools import lazy_door

if TYPE_CHECKING:
    from penstock.backends.kubernetes import (
        ClusterApi,
        ClusterApiError,
        KubernetesBackend,
        KubernetesSettings,
        LeaderLease,
        ObjectWatch,
    )
    from penstock.backends.slurm import SlurmBackend, SlurmSettings

__getattr__ = lazy_door(__name__)

__all__ = [
    "Backend",
    "BackendError",
    "ClusterApi",
    "ClusterApiError",
    "FoundRun",
    "Inventory",
    "KubernetesBackend",
    "KubernetesSettings",
    "LeaderLease",
    "LocalBackend",
    "LocalDevice",
    "ObjectWatch",
    "PreparationError",
    "RunEnvironment",
    "ShortageError",
    "SilentError",
    "SlurmBackend",
    "SlurmSettings",
    "TenantUsers",
    "discover",
    "fake_devices",
    "found_runs",
    "inherited_environment",
    "read_log",
]
