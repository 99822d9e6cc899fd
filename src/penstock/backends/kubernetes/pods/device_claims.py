"""What a worker's pod asks of its node, carried in the worker's device variables from the backend to its agent.

The backend knows the cluster's nodes; the agent, a process of its own, knows workers and what stands beside them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.backends.kubernetes.cluster_nodes import CPU, DeviceNode

HOST = "PENSTOCK_DEVICE_HOST"
RESOURCE = "PENSTOCK_DEVICE_RESOURCE"
KIND = "PENSTOCK_DEVICE_KIND"
AMOUNT = "PENSTOCK_DEVICE_AMOUNT"
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClaim:
    """One device of a kind on a machine, or some of its processor cores."""

    host: str
    resource: str
    kind: str
    amount: float = 1.0

    @classmethod
    def on(cls, node: DeviceNode) -> "DeviceClaim":
        return cls(host=node.host, resource=node.resource, kind=node.node.kind, amount=node.per_device)

    @classmethod
    def core_beside(cls, node: DeviceNode) -> "DeviceClaim":
        """One core of the machine of a node, and no device; the image is that of the node's kind."""
        return cls(host=node.host, resource=CPU, kind=node.node.kind)

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> "DeviceClaim":
        return cls(
            host=variables[HOST], resource=variables[RESOURCE], kind=variables[KIND], amount=float(variables[AMOUNT])
        )

    @property
    def is_cpu(self) -> bool:
        return self.resource == CPU

    def variables(self) -> tuple[tuple[str, str], ...]:
        own = ((HOST, self.host), (RESOURCE, self.resource), (KIND, self.kind), (AMOUNT, f"{self.amount:g}"))
        threads = str(max(1, math.floor(self.amount)))
        return own + (tuple((name, threads) for name in _THREADS) if self.is_cpu else ())
