"""When the artifact looks at the cluster again.

Events less than a slot away are pulled together and handled one slot from now, so an arrival may wait up to a slot.
A lone last event is never moved: with nothing to merge it with, the artifact leaves it where it is.
"""

from collections import deque
from collections.abc import Sequence
from itertools import groupby
from math import inf

from penstock.simulate.replicas.elasticflow.jobs import ArtifactJob


class Arrivals:
    """Jobs still to come, one group per moment; a group is the unit of admission."""

    def __init__(self, jobs: Sequence[ArtifactJob]) -> None:
        rows = sorted(range(len(jobs)), key=lambda row: jobs[row].submitted_at)
        groups = groupby(rows, key=lambda row: jobs[row].submitted_at)
        self._groups = deque((float(moment), list(group)) for moment, group in groups)

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def first_at(self) -> float:
        return self._groups[0][0] if self._groups else inf

    @property
    def last_at(self) -> float:
        return self._groups[-1][0] if self._groups else -inf

    def take(self, now: float) -> list[int]:
        """Everything that has arrived by ``now``."""
        rows: list[int] = []
        while self._groups and self._groups[0][0] <= now:
            rows += self._groups.popleft()[1]
        return rows

    def fold(self, now: float, slot: float) -> None:
        """Merge the groups less than a slot away into one, a slot from now."""
        if len(self) > 1 and self.first_at - now <= slot:
            self._groups.appendleft((now + slot, self.take(now + slot)))


def next_moment(now: float, slot: float, arrivals: Arrivals, others: Sequence[float]) -> float:
    """The moment of the next event among arrivals and ``others``, after merging; infinite if there is none."""
    first = min(arrivals.first_at, min(others, default=inf))
    last = max(arrivals.last_at, max(others, default=-inf))
    return now + slot if first < last and first - now <= slot else first
