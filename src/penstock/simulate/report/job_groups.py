"""Jobs sorted into classes a person thinks in: small and large, narrow and wide, in a hurry or not, whose they are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.core import format_duration
from penstock.policies import Bools, Floats
from penstock.simulate.outcomes import Fate
from penstock.simulate.report.arrays import Crowd, Outcomes

_MOST_NAMES = 8
_HURRIED = 2.0
_WIDE = 8


@dataclass(frozen=True, slots=True)
class JobClass:
    """Some of the jobs, by one way of sorting them."""

    sorted_by: str
    label: str
    members: Bools

    def __len__(self) -> int:
        return int(self.members.sum())


@dataclass(frozen=True, slots=True)
class Fortune:
    """How a class fared under one policy: deadlines met of those there were, and the median completion time."""

    met: int
    due: int
    jct_p50_s: float

    @property
    def ratio(self) -> float:
        return self.met / self.due if self.due else float("nan")


def classes_of(crowd: Crowd) -> list[JobClass]:
    """Every class that has somebody in it; a way of sorting that does not divide the jobs is left out."""
    ways = (_by_size(crowd), _by_width(crowd), _by_hurry(crowd), _by_name("tenant", crowd.tenants),
            _by_name("model", crowd.models))  # fmt: skip
    found = []
    for way in ways:
        present = [one for one in way if len(one)]
        found += present if len(present) > 1 else []
    return found


def fortune(crowd: Crowd, run: Outcomes, group: JobClass) -> Fortune:
    due = int((np.isfinite(crowd.deadline) & group.members).sum())
    return Fortune(int((run.ended(Fate.MET) & group.members).sum()), due, median(run.jct_s[group.members]))


def median(values: Floats) -> float:
    there = values[~np.isnan(values)]
    return float(np.median(there)) if len(there) else float("nan")


def _by_size(crowd: Crowd) -> Iterator[JobClass]:
    """Three equal parts by the device time they take."""
    finite = crowd.size_s[np.isfinite(crowd.size_s)]
    if not len(finite):
        return
    low, high = (float(value) for value in np.quantile(finite, (1 / 3, 2 / 3)))
    size = crowd.size_s
    yield JobClass("size", f"small (up to {format_duration(low)} of device time)", size <= low)
    yield JobClass("size", f"medium (to {format_duration(high)})", (size > low) & (size <= high))
    yield JobClass("size", f"large (beyond {format_duration(high)})", size > high)


def _by_width(crowd: Crowd) -> Iterator[JobClass]:
    asked = crowd.requested
    yield JobClass("width", "narrow (asked for 1 device)", asked == 1)
    yield JobClass("width", f"middling (2 to {_WIDE - 1} devices)", (asked > 1) & (asked < _WIDE))
    yield JobClass("width", f"wide ({_WIDE} devices and more)", asked >= _WIDE)


def _by_hurry(crowd: Crowd) -> Iterator[JobClass]:
    """Time to the deadline in multiples of the fastest possible run."""
    room = (crowd.deadline - crowd.submitted) / crowd.fastest_s
    due = np.isfinite(crowd.deadline)
    yield JobClass("hurry", "impossible (even alone it would be late)", due & (room < 1))
    yield JobClass("hurry", f"hurried (less than {_HURRIED:g} times its fastest run)", due & (room >= 1) & (room < 2))
    yield JobClass("hurry", "with time to spare", due & (room >= _HURRIED))
    yield JobClass("hurry", "without a deadline", ~due)


def _by_name(sorted_by: str, names: Sequence[str]) -> Iterator[JobClass]:
    """One class for each of the commonest names, and one for the others together."""
    column = np.array(names)
    found, counts = np.unique(column, return_counts=True)
    common = found[np.argsort(-counts, kind="stable")][:_MOST_NAMES]
    for name in common:
        yield JobClass(sorted_by, f"{sorted_by} {name or 'unnamed'}", column == name)
    yield JobClass(sorted_by, f"other {sorted_by}s", ~np.isin(column, common))
