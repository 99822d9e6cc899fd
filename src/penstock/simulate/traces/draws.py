"""Random numbers that depend on nothing but what they are for.

Each draw is a hash of the seed, of what is drawn and of whom it is drawn for, not of the order in which draws are made:
the same job meets the same fate under every policy, and taking jobs out changes nothing about those that stay.
"""

import hashlib
import math


def uniform_draw(seed: int, purpose: str, whom: str) -> float:
    """A number in [0, 1).

    >>> uniform_draw(1, "deadline", "job-7") == uniform_draw(1, "deadline", "job-7")
    True
    """
    digest = hashlib.blake2b(f"{seed}/{purpose}/{whom}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) / 2**53


def exponential_draw(seed: int, purpose: str, whom: str, mean: float) -> float:
    """How long it takes until something happens that happens every ``mean`` on average."""
    return -mean * math.log1p(-uniform_draw(seed, purpose, whom))
