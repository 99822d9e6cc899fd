"""Buddy placement: compact, sticky, and moving others only when a job would not be compact otherwise.

After ElasticFlow (ASPLOS '23). There, every job is placed anew on each event, which never fragments but
moves jobs whose width did not change. Here a job stays where it is; it starts in an aligned power-of-two block of a
node, or on whole nodes, shrinks to a part of its block and grows into the buddy beside it. When the free devices
suffice but no node has enough of them, the jobs whose leaving moves the fewest devices make room.

Two deviations are deliberate. A node with enough free devices that form no aligned block is used as it is: a move
costs a restart, alignment inside a node nothing we can measure. And of evictions that move equally many devices those
with fewer jobs come first, for the same reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.placement.base import Ask, carve, in_order, round_up
from penstock.placement.best_fit import compact, resized
from penstock.placement.occupancy import Counts, Masks, Occupancy


class Buddy:
    """Most compact placements by least-loss defragmentation.

    If all nodes are equal, with a power of two of devices, and all widths are powers of two, every job spans the
    fewest nodes it can: jobs at least as wide as a new one fill multiples of its width in each node, so wherever a
    device is free the narrower jobs there can make room; they are narrower, so making room for them in turn ends.
    With other widths or node sizes the same is tried, and a job spills over several nodes where it fails.

    O(nodes) vector operations per job without a move; O(nodes * devices per node * jobs per node) at worst with one.
    """

    name = "buddy"
    summary = "aligned blocks, kept while possible; moves the least to keep every job compact"

    def place(self, occupancy: Occupancy, asks: Sequence[Ask]) -> dict[int, tuple[int, ...]]:
        return _Round(occupancy, asks).run()


class _Round:
    """One call: which asks are still to be served, and where everyone touched was before."""

    def __init__(self, occupancy: Occupancy, asks: Sequence[Ask]) -> None:
        self._occupancy = occupancy
        self._asks = in_order(occupancy, asks)
        self._waiting = {ask.key for ask in asks}
        self._before: dict[int, tuple[int, ...]] = {}

    def run(self) -> dict[int, tuple[int, ...]]:
        for ask in self._asks:
            self._waiting.remove(ask.key)
            if self._occupancy.width(ask.key) != ask.width:
                self._resize(ask.key, ask.width)
        devices = self._occupancy.devices
        return {key: devices(key) for key, before in self._before.items() if devices(key) != before}

    def _resize(self, key: int, width: int) -> None:
        held = self._occupancy.parts(key)
        self._lift(key)
        if held:
            kept = resized(self._occupancy, held, width)
            if len(kept) <= self._occupancy.fewest_nodes(width):
                self._occupancy.assign(key, kept)
                return
        self._seat(key, width)

    def _lift(self, key: int) -> None:
        self._before.setdefault(key, self._occupancy.devices(key))
        self._occupancy.release(key)

    def _seat(self, key: int, width: int) -> None:
        parts = _block(self._occupancy, width)
        if len(parts) > self._occupancy.fewest_nodes(width):
            room = _cheapest_room(self._occupancy, width)
            if room is not None:
                self._make_room(key, room)
                return
        self._occupancy.assign(key, parts)

    def _make_room(self, key: int, room: "_Room") -> None:
        widths = {victim: self._occupancy.width(victim) for victim in room.victims}
        for victim in widths:
            self._lift(victim)
        chosen = {node: carve(self._occupancy.mask(node), count) for node, count in room.counts.items()}
        self._occupancy.assign(key, chosen)
        for victim in sorted(widths.keys() - self._waiting, key=lambda job: (-widths[job], job)):
            self._seat(victim, widths[victim])


@dataclass(frozen=True, slots=True)
class _Room:
    """Devices to take per node once the victims are gone."""

    counts: dict[int, int]
    victims: tuple[int, ...]


def _block(occupancy: Occupancy, width: int) -> Masks:
    """The smallest free block, in the fullest node that has one; else the fewest nodes."""
    size = width
    while size == round_up(size) and size <= occupancy.largest_node:
        nodes = (occupancy.blocks_per_node & size).nonzero()[0]
        if nodes.size:
            node = int(nodes[occupancy.free_per_node[nodes].argmin()])
            return {node: carve(occupancy.mask(node), width)}
        size *= 2
    return compact(occupancy, width)


def _cheapest_room(occupancy: Occupancy, width: int) -> _Room | None:
    """Where to put ``width`` devices on the fewest nodes so that leaving jobs move the fewest devices."""
    whole, rest = divmod(width, occupancy.largest_node)
    nodes = _emptiest_first(occupancy)
    counts: dict[int, int] = {}
    victims: dict[int, None] = {}
    for count in [occupancy.largest_node] * whole + [rest] * (rest > 0):
        found = _cheapest_node(occupancy, nodes, count)
        if found is None:
            return None
        node, leaving = found
        counts[node] = count
        victims.update(dict.fromkeys(leaving.keys))
        nodes = nodes[nodes != node]
    return _Room(counts, tuple(victims))


def _emptiest_first(occupancy: Occupancy) -> Counts:
    """The nodes with free devices, most first; of equal ones those with fewer jobs."""
    nodes = occupancy.free_per_node.nonzero()[0]
    jobs = np.array([len(occupancy.holders(node)) for node in nodes.tolist()])
    return nodes[np.lexsort((jobs, -occupancy.free_per_node[nodes]))]


@dataclass(frozen=True, slots=True, order=True)
class _Leaving:
    """Jobs that could leave a node, ordered by what that costs: devices they hold anywhere, then their number."""

    moved: int = 0
    jobs: int = 0
    keys: tuple[int, ...] = field(default=(), compare=False)

    def __add__(self, job: "_Job") -> "_Leaving":
        return _Leaving(self.moved + job.width, self.jobs + 1, (*self.keys, job.key))


@dataclass(frozen=True, slots=True)
class _Job:
    """A job on the node in question: its whole width, and the part of it here."""

    key: int
    width: int
    here: int


def _cheapest_node(occupancy: Occupancy, nodes: Counts, count: int) -> tuple[int, _Leaving] | None:
    """The node, of those given emptiest first, where ``count`` devices cost least; and who must leave.

    At least what is missing must move, so the search ends where the next node misses more than the best one costs.
    """
    best: tuple[int, _Leaving] | None = None
    for node in nodes[occupancy.size_per_node[nodes] >= count].tolist():
        missing = max(0, count - int(occupancy.free_per_node[node]))
        if best is not None and best[1].moved <= missing:
            break
        leaving = _cheapest_to_leave(_jobs_narrower_than(count, occupancy, node), missing)
        if leaving is not None and (best is None or leaving < best[1]):
            best = node, leaving
    return best


def _jobs_narrower_than(width: int, occupancy: Occupancy, node: int) -> list[_Job]:
    """The jobs on a node that may make room for a wider one, widest first."""
    jobs = [_Job(key, occupancy.width(key), mask.bit_count()) for key, mask in occupancy.holders(node).items()]
    free_to_go = [job for job in jobs if job.width < width and job.key not in occupancy.pinned]
    return sorted(free_to_go, key=lambda job: (-job.width, job.key))


def _cheapest_to_leave(jobs: Sequence[_Job], missing: int) -> _Leaving | None:
    """Those who free at least ``missing`` devices and hold the fewest; for powers of two the first try is right."""
    if sum(job.here for job in jobs) < missing:
        return None
    return _exact_fit(jobs, missing) or _knapsack(jobs, missing)


def _exact_fit(jobs: Sequence[_Job], missing: int) -> _Leaving | None:
    leaving = _Leaving()
    for job in jobs:
        if job.width == job.here <= missing - leaving.moved:
            leaving += job
    return leaving if leaving.moved == missing else None


def _knapsack(jobs: Sequence[_Job], missing: int) -> _Leaving:
    """By the number of devices freed so far. O(jobs * missing)."""
    best = {0: _Leaving()}
    for job in jobs:
        for freed, leaving in list(best.items()):
            reached = min(missing, freed + job.here)
            best[reached] = min(best.get(reached, leaving + job), leaving + job)
    return best[missing]
