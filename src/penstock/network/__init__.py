"""How long do bytes take between devices? One model of links, of collectives over them, and of what backward hides.

Predictions of data parallelism and prices of parallel plans both ask here, so that they cannot disagree about a wire.
"""

from penstock.network.collectives import (
    allgather_s,
    allreduce_s,
    reduce_scatter_s,
    ring_allreduce_s,
    send_s,
    tree_allreduce_s,
)
from penstock.network.fabric import Fabric, Group, MeasuredCollectives, fabric_of
from penstock.network.links import LINKS, NODE_NETWORKS, Link, link_named
from penstock.network.overlap import data_parallel_s, exposed_s

__all__ = [
    "LINKS",
    "NODE_NETWORKS",
    "Fabric",
    "Group",
    "Link",
    "MeasuredCollectives",
    "allgather_s",
    "allreduce_s",
    "data_parallel_s",
    "exposed_s",
    "fabric_of",
    "link_named",
    "reduce_scatter_s",
    "ring_allreduce_s",
    "send_s",
    "tree_allreduce_s",
]
