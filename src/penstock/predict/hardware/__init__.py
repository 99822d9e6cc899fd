"""What devices can do: published peaks, links between them, and the power they draw."""

from penstock.predict.hardware.bounds import Bound
from penstock.predict.hardware.chip import Chip
from penstock.predict.hardware.communication import (
    allgather_s,
    allreduce_s,
    data_parallel_s,
    exposed_s,
    hierarchical_allreduce_s,
    p2p_s,
    reduce_scatter_s,
    ring_allreduce_s,
    tree_allreduce_s,
)
from penstock.predict.hardware.datasheet import DEVICES, device_named
from penstock.predict.hardware.energy import (
    ClassPower,
    MeasuredEnergy,
    capped_power_w,
    demand_w,
    energy_j,
    slowdown,
)
from penstock.predict.hardware.links import LINKS, AllReduceTime, Link, link_named
from penstock.predict.hardware.precision import Precision

__all__ = [
    "DEVICES",
    "LINKS",
    "AllReduceTime",
    "Bound",
    "Chip",
    "ClassPower",
    "Link",
    "MeasuredEnergy",
    "Precision",
    "allgather_s",
    "allreduce_s",
    "capped_power_w",
    "data_parallel_s",
    "demand_w",
    "device_named",
    "energy_j",
    "exposed_s",
    "hierarchical_allreduce_s",
    "link_named",
    "p2p_s",
    "reduce_scatter_s",
    "ring_allreduce_s",
    "slowdown",
    "tree_allreduce_s",
]
