"""Packs the evaluation of one checkpoint onto devices: which pieces of which data sets, in which order.

After section 4 of Acme (NSDI'24, "decoupled scheduling for evaluation"): run times are known from earlier checkpoints,
large data sets are split, what has a long tail on the processor goes first, and the longest goes before the shorter.
Ours are the finer pieces (a worker keeps its model, so another piece costs no load) and the choice among three orders
by playing each one through.

Workers take the next piece when they are done with one, so the plan is an order and not an assignment: with exact
times that is longest-first list scheduling, with wrong ones nobody waits for a neighbour. O(n log n) for n pieces.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from penstock.core import InputError

PIECES = 4
"""Of a device's share of all the work, no piece is larger than this part: what the last device to end has too much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTime:
    """One data set and how long it takes: on a device, and then on the processor.

    Without ``samples`` it cannot be split. With ``by_shard`` the metric step is split with it; otherwise it begins when
    the last shard is done.
    """

    name: str
    device_s: float
    metric_s: float = 0.0
    samples: int | None = None
    by_shard: bool = False

    def __post_init__(self) -> None:
        if not all(math.isfinite(seconds) and seconds >= 0.0 for seconds in (self.device_s, self.metric_s)):
            raise InputError(f"{self.name} takes {self.device_s} and {self.metric_s} seconds", "0 or more seconds")
        if self.samples is not None and self.samples < 1:
            raise InputError(f"{self.name} has {self.samples} samples", "at least 1", "Leave the data set out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Samples ``start`` to ``stop`` of a data set, or all of one whose size nobody told (``stop`` is None then).

    ``metric_s`` is the time of a metric step of its own, if it has one.
    """

    set: str
    start: int = 0
    stop: int | None = None
    device_s: float = 0.0
    metric_s: float = 0.0

    @property
    def weight(self) -> int:
        """How much of the work it is, as progress counts it."""
        return 1 if self.stop is None else self.stop - self.start


Measure = Callable[[Sequence[Shard], Mapping[str, float]], tuple[float, ...]]
"""How urgent the pieces of one data set are; the greatest go first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedEvaluation:
    """Shards in the order in which they are taken, when all is probably done, and before when it cannot be."""

    shards: tuple[Shard, ...]
    makespan_s: float
    bound_s: float


def pack(
    sets: Iterable[SetTime], devices: int, *, load_s: float = 0.0, processors: int | None = None
) -> PackedEvaluation:
    """The best of three orders of the pieces of ``sets`` for so many devices, each of which loads the model once.

    ``processors`` is how many metric steps run at once; as many as want to, if it is not given.
    """
    if devices < 1 or not (math.isfinite(load_s) and load_s >= 0.0):
        raise InputError(f"{devices} devices, {load_s} s to load", "at least one device and 0 s", "Give devices: 1")
    given = list(sets)
    if len({each.name for each in given}) != len(given):
        raise InputError("two data sets of one name", "every name once", "Rename one of them")
    tails = {each.name: 0.0 if each.by_shard else each.metric_s for each in given}
    pieces = [_split(each, sum(known.device_s for known in given) / (devices * PIECES)) for each in given]
    orders = [_ordered(pieces, tails, key) for key in (_by_tail, _by_both, _by_piece)]
    played = [(play(order, tails, devices, load_s=load_s, processors=processors), order) for order in orders]
    makespan_s, best = min(played, key=lambda each: each[0])
    return PackedEvaluation(
        shards=tuple(best), makespan_s=makespan_s, bound_s=bound(given, devices, load_s=load_s, processors=processors)
    )


def play(
    shards: Sequence[Shard],
    tails: Mapping[str, float],
    devices: int,
    *,
    load_s: float = 0.0,
    processors: int | None = None,
) -> float:
    """When the last device and the last metric step are done, if every time is as expected.

    ``tails`` are the times of metric steps that need all shards of their data set.
    """
    free = [load_s] * devices if shards else [0.0]
    ready: dict[str, float] = {}
    waiting: list[tuple[float, float]] = []
    for shard in shards:
        end = heapq.heappop(free) + shard.device_s
        heapq.heappush(free, end)
        ready[shard.set] = max(ready.get(shard.set, 0.0), end)
        waiting.append((end, shard.metric_s))
    waiting += [(at, tails.get(name, 0.0)) for name, at in ready.items()]
    waiting = sorted(each for each in waiting if each[1] > 0.0)
    cores = [0.0] * min(processors or len(waiting), len(waiting))
    last = max(free)
    for at, tail in waiting:
        end = max(heapq.heappop(cores), at) + tail
        heapq.heappush(cores, end)
        last = max(last, end)
    return last


def bound(sets: Sequence[SetTime], devices: int, *, load_s: float = 0.0, processors: int | None = None) -> float:
    """Before this nobody is done, however it is packed: the work of all, and each data set with its tail behind it."""
    if not sets:
        return 0.0
    total = load_s + sum(each.device_s for each in sets) / devices
    alone = max(load_s + _alone(each, devices) for each in sets)
    tails = load_s + sum(each.metric_s for each in sets) / processors if processors else 0.0
    return max(total, alone, tails)


def _alone(each: SetTime, devices: int) -> float:
    """What one data set takes at least if it has all devices to itself, and as many processors as it has samples."""
    pieces = each.samples or 1
    tail = each.metric_s / pieces if each.by_shard else each.metric_s
    return each.device_s / min(devices, pieces) + tail


def _split(each: SetTime, most_s: float) -> list[Shard]:
    """Equal pieces of whole samples, none longer than ``most_s`` where that is possible."""
    if each.samples is None:
        return [Shard(set=each.name, device_s=each.device_s, metric_s=each.metric_s if each.by_shard else 0.0)]
    longest = max(each.device_s, each.metric_s if each.by_shard else 0.0)
    wanted = math.ceil(longest / most_s) if most_s > 0.0 else 1
    count = max(1, min(wanted, each.samples))
    edges = [each.samples * number // count for number in range(count + 1)]
    tail = each.metric_s if each.by_shard else 0.0
    return [
        Shard(
            set=each.name, start=start, stop=stop, device_s=each.device_s * (stop - start) / each.samples,
            metric_s=tail * (stop - start) / each.samples,
        )
        for start, stop in pairwise(edges)
    ]  # fmt: skip


def _ordered(pieces: Iterable[Sequence[Shard]], tails: Mapping[str, float], key: Measure) -> list[Shard]:
    """Data set after data set by one measure, the greatest first; the pieces of one stay together."""
    wanted = sorted(pieces, key=lambda some: (key(some, tails), some[0].set), reverse=True)
    return [shard for some in wanted for shard in some]


def _by_tail(some: Sequence[Shard], tails: Mapping[str, float]) -> tuple[float, ...]:
    return tails[some[0].set] + some[0].metric_s, some[0].device_s


def _by_both(some: Sequence[Shard], tails: Mapping[str, float]) -> tuple[float, ...]:
    return (tails[some[0].set] + some[0].metric_s + some[0].device_s,)


def _by_piece(some: Sequence[Shard], tails: Mapping[str, float]) -> tuple[float, ...]:
    return some[0].device_s, tails[some[0].set] + some[0].metric_s
