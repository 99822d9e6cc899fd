"""How Penstock uses a cluster: where, with what image, and what every pod of it gets."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.backends.engine_settings import read_settings
from penstock.backends.kubernetes.cluster_api import Manifest
from penstock.core import InputError

DEFAULT_IMAGE = "penstock:latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """Everything that ``backend_settings`` can say for the backend "kubernetes".

    ``image`` is what workers run in, ``images`` another one for some kinds of devices; it has Python as ``python`` and
    Penstock. ``node_selector`` is a label selector of the nodes that may be used. ``cpu_slot_cores`` makes slots of so
    many processor cores on nodes without accelerators; 0 leaves such nodes alone. ``volumes`` are entries of a pod's
    ``volumes`` with ``mountPath``, and ``readOnly`` or ``subPath`` if wanted. ``tolerations`` are as in a pod; a taint
    that none of them matches makes a node unusable.

    ``cache_dir`` is a directory of a volume that all pods see: requirements of job files are installed there once.

    ``tenants`` says whose jobs the PenstockJobs of a namespace are: one tenant, or a list among which the label
    ``penstock.dev/tenant`` chooses. Without it only those of ``namespace`` are served, for the tenant "default".

    ``agent_host`` is the address at which pods reach this machine, found by itself if it is not given; ``encrypt``
    whether what they say to each other is encrypted. A pod without
    room after ``schedule_timeout_s``, or without an image after ``pull_timeout_s``, is given up.
    """

    namespace: str = "penstock"
    context: str = ""
    kubeconfig: str = ""
    image: str = DEFAULT_IMAGE
    images: Mapping[str, str] = field(default_factory=dict)
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    python: str = "python3"
    node_selector: str = ""
    cpu_slot_cores: float = 0.0
    cpus_per_device: float = 0.0
    memory_per_device: str = ""
    shared_memory: str = "8Gi"
    volumes: tuple[Manifest, ...] = ()
    tolerations: tuple[Manifest, ...] = ()
    priority_class: str = ""
    run_as_user: int = 1000
    cache_dir: str = ""
    agent_host: str = ""
    encrypt: bool = True
    tenants: Mapping[str, Any] = field(default_factory=dict)
    schedule_timeout_s: float = 60.0
    pull_timeout_s: float = 300.0
    node_lost_after_s: float = 30.0

    def __post_init__(self) -> None:
        if self.cpu_slot_cores < 0 or self.cpus_per_device < 0:
            raise InputError("a negative number of cores", "cores from 0")
        if any("mountPath" not in volume or "name" not in volume for volume in self.volumes):
            raise InputError("volumes without name or mountPath", "entries of a pod's volumes with a mountPath")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "KubernetesSettings":
        """From a table of a configuration file."""
        return read_settings(cls, values, "kubernetes")

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    def image_for(self, kind: str) -> str:
        return self.images.get(kind, self.image)
