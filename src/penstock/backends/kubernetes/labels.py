"""Names by which Penstock's objects are found in a cluster, and those by which clusters describe their nodes."""

import hashlib
import re

MANAGED_BY = "app.kubernetes.io/managed-by"
PENSTOCK = "penstock"
INSTALLATION = "penstock.dev/installation"
RUN = "penstock.dev/run"
WORKER = "penstock.dev/worker"
SLOT = "penstock.dev/slot"
NODE = "penstock.dev/node"
PART = "penstock.dev/part"
RUN_ID = "penstock.dev/run-id"
JOB_ID = "penstock.dev/job-id"

ZONE = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
RACK = (
    "topology.kubernetes.io/rack",
    "cloud.google.com/gce-topology-subblock",
    "topology.k8s.aws/network-node-layer-3",
)
PRODUCT = (
    "nvidia.com/gpu.product", "amd.com/gpu.product-name", "node.kubernetes.io/npu.chip.name",
    "cloud.google.com/gke-accelerator", "accelerator",
)  # fmt: skip
DEVICE_MEMORY = "nvidia.com/gpu.memory"
"""In MiB."""

_LONGEST = 40


def object_name(text: str) -> str:
    """A name for objects that stands for any text: readable, and different for different texts.

    >>> object_name("run-1"), object_name("Job_7.a")
    ('run-1', 'job-7-a-61b97d02')
    """
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if plain == text and len(text) <= _LONGEST:
        return text
    return f"{plain[:_LONGEST].strip('-') or 'x'}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
