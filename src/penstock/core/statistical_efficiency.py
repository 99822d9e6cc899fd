"""How much a sample is worth in a larger batch: what decides how far a global batch may grow with the devices."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from penstock.core.errors import JobError

_BATCHES_PER_DOUBLING = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticalEfficiency:
    """The gradient noise scale of a training and the batches it may use (Qiao et al., OSDI 2021; McCandlish et al.).

    A sample in a batch of ``M`` brings ``(noise_scale + initial_batch) / (noise_scale + M)`` of the progress that it
    brings in the initial batch. Progress counts in iterations of the initial batch, so *goodput* is iterations per
    second times ``M / initial_batch`` times this efficiency.

    >>> StatisticalEfficiency(noise_scale=900.0, initial_batch=100, most_batch=800).efficiency(400)
    0.7692307692307693
    """

    noise_scale: float
    initial_batch: int
    most_batch: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.noise_scale) and self.noise_scale >= 0):
            raise JobError(f"a gradient noise scale of {self.noise_scale} samples", "zero or a positive, finite number")
        if not 1 <= self.initial_batch <= self.most_batch:
            raise JobError(
                f"batches of {self.initial_batch} to {self.most_batch} samples", "1 or more, the initial one first"
            )

    def efficiency(self, batch: int) -> float:
        """Progress per sample in a global batch, as a share of that in the initial batch."""
        return (self.noise_scale + self.initial_batch) / (self.noise_scale + batch)

    def goodput(self, batch: int, rate: float) -> float:
        """Progress per second at ``rate`` iterations per second with a global batch."""
        return rate * batch / self.initial_batch * self.efficiency(batch)

    def best(self, rate_of: Callable[[int], float], at_least: int = 1) -> tuple[int, float]:
        """The batch with the most goodput, which that is; ``rate_of`` gives the iterations per second of a batch.

        Tries the bounds and eight batches per doubling between them; of equal ones the smallest. ``at_least`` samples
        are needed where every device computes one; if that is above ``most_batch`` the goodput is 0.
        """
        found = ((batch, self.goodput(batch, rate_of(batch))) for batch in self.batches(at_least))
        return max(found, key=lambda each: each[1], default=(self.most_batch, 0.0))

    def batches(self, at_least: int = 1) -> tuple[int, ...]:
        """The batches to choose from, ascending."""
        least = max(self.initial_batch, at_least)
        if least > self.most_batch:
            return ()
        steps = math.ceil(_BATCHES_PER_DOUBLING * math.log2(self.most_batch / least))
        between = {round(least * 2 ** (step / _BATCHES_PER_DOUBLING)) for step in range(steps)}
        return tuple(sorted({batch for batch in between if batch < self.most_batch} | {self.most_batch}))
