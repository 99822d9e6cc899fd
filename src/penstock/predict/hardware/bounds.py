"""What a kernel waits for while it runs: the classes of SEER, and two more that modern devices show."""

from enum import StrEnum


class Bound(StrEnum):
    """Under-utilised: neither arithmetic nor memory is near its limit, because the last wave leaves most units idle."""

    COMPUTE = "compute"
    DRAM = "dram"
    L2 = "l2"
    LATENCY = "latency"
    UNDERUSED = "under-utilised"
