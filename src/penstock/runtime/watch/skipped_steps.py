"""Steps whose batches are passed over, as part of a run's state.

A step that is skipped counts as done, so numbers of steps, epochs and the ends of training stay what they were. The
record travels with the state: newcomers to a world and runs that resume from a later checkpoint pass over the same.
A run that resumes from a checkpoint of before the fault meets it again, and comes to the same conclusion again.
"""

from typing import Any


class SkippedSteps:
    """Ranges of steps, both ends included, and how often the run went back for them."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []

    @property
    def rollbacks(self) -> int:
        return len(self.ranges)

    def add(self, first: int, last: int) -> None:
        self.ranges.append((first, last))

    def next(self, step: int) -> int:
        """The first step from here on that is not skipped."""
        for first, last in sorted(self.ranges):
            if first <= step <= last:
                step = last + 1
        return step

    def state_dict(self) -> dict[str, Any]:
        return {"ranges": [list(one) for one in self.ranges]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a record, and keep what is known here and not there: a checkpoint is older than why we go back."""
        loaded = [(int(first), int(last)) for first, last in state["ranges"]]
        self.ranges = loaded + [one for one in self.ranges if one not in loaded]
