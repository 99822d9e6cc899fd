"""What averaging gradients adds to an iteration: buckets that travel while backward still computes."""

import math
from collections.abc import Sequence

from penstock.network.collectives import allreduce_s, alone
from penstock.network.links import Link

_BUCKET_BYTES = 25e6
"""PyTorch's DDP collects gradients in buckets of this size."""


def exposed_s(bucket_s: Sequence[float], backward_s: float) -> float:
    """What is left of the buckets' communication after backward has ended.

    Buckets fill evenly over the backward pass and travel one after another; the last one can only start when backward
    is over, so at least that one is always seen.
    """
    done = 0.0
    for number, seconds in enumerate(bucket_s, start=1):
        done = max(done, backward_s * number / len(bucket_s)) + seconds
    return max(0.0, done - backward_s)


def data_parallel_s(
    gradient_bytes: float, devices: int, link: str | Link, backward_s: float, *, bucket_bytes: float = _BUCKET_BYTES
) -> float:
    """Seconds that averaging gradients adds to an iteration, overlapped with backward bucket by bucket."""
    if alone(gradient_bytes, devices):
        return 0.0
    buckets = max(1, math.ceil(gradient_bytes / bucket_bytes))
    return exposed_s([allreduce_s(gradient_bytes / buckets, devices, link)] * buckets, backward_s)
