"""Which few numbers of devices to try for a job nobody has measured yet."""

from collections.abc import Collection

from penstock.core import InputError


def profiling_plan(
    max_devices: int, known_counts: Collection[int] = (), *, min_devices: int = 1, free: int | None = None
) -> tuple[int, ...]:
    """The counts to measure, smallest first: the fewest devices, twice that, and the largest power of two that fits.

    The first gives the speed, the second what one exchange costs, the last how far it carries; the model fills in
    the rest. ``free`` bounds all of them, so that profiling never waits for others; with nothing free, or everything
    known, there is nothing to measure. What is too large for today's free devices is asked for again another time.

    >>> profiling_plan(12), profiling_plan(12, known_counts=[1]), profiling_plan(8, free=3)
    ((1, 2, 8), (2, 8), (1, 2))
    """
    if not 1 <= min_devices <= max_devices:
        raise InputError(f"profiling on {min_devices} to {max_devices} devices", "at least 1, and least before most")
    top = max_devices if free is None else min(max_devices, free)
    if top < min_devices:
        return ()
    largest = max(1 << (top.bit_length() - 1), min_devices)
    wanted = {min_devices, min(2 * min_devices, top), largest}
    return tuple(sorted(wanted - set(known_counts)))
