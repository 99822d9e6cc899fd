"""How often to save: the interval that loses the least time to saving and to doing again what was not saved.

Young (1974): sqrt(2 C M), with C what a checkpoint costs and M the mean time between failures. Daly (2006) corrects it
where C is not small beside M.
"""

import math

from penstock.core import InputError


def best_interval_s(blocking_s: float, mean_time_between_failures_s: float) -> float:
    """Young's interval between checkpoints, sqrt(2 C M): the least time lost to saving and to redoing together."""
    if blocking_s <= 0 or mean_time_between_failures_s <= 0:
        raise InputError(
            f"cost {blocking_s:g} s, time between failures {mean_time_between_failures_s:g} s", "both above 0 seconds",
            "Measure the cost with one checkpoint",
        )  # fmt: skip
    return math.sqrt(2 * blocking_s * mean_time_between_failures_s)
