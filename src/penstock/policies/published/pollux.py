"""Pollux: goodput shared out by a genetic algorithm, round after round."""

from typing import Annotated, ClassVar

import numpy as np

from penstock.policies.columns import Bools, Floats, Ints
from penstock.policies.greedy import by_priority
from penstock.policies.parameters import Parameter
from penstock.policies.published.rounds import (
    Holding,
    RoundPolicy,
    Starts,
    change_factor,
    chosen,
    devices_of,
    in_reach,
    least_starts,
)
from penstock.policies.view import View

_ALONE = 1e-2
"""The speed-up that a job without devices counts for; with 0, all allocations that leave a job out would be equal."""
_STALE = 25
"""Generations without a better one, after which the search ends."""
_NOTHING = 0.1
"""How often a mutation takes all devices from a job."""


class Pollux(RoundPolicy):
    """Every round, the allocation with the largest power mean of speed-ups that a genetic algorithm finds.

    A job's speed-up is its goodput over that on its fair share, 1/N of every kind; other devices than the present lose
    what a change costs. The power mean of ``power`` -1 weighs jobs that are far behind. A generation mutates one in N
    jobs, crosses allocations that win a tournament of two, drops jobs in random order until the devices suffice and
    keeps the best. At most twice as many devices as before. Goodput is the rate of the job's curve: of samples that
    count, where its batch follows its devices (Qiao et al., OSDI'21).

    The paper knows one kind of device and places jobs on nodes in the same search; here options may be of any kind and
    placement is separate. Random numbers depend on the time and ``seed`` alone. Clusters do not grow as in clouds; jobs
    of higher priority are placed first.

    O(generations x population x jobs log jobs) per round; in between O(jobs log jobs).
    """

    name: ClassVar[str] = "pollux"
    summary: ClassVar[str] = "goodput beside that on a fair share, by a genetic algorithm, in rounds; elastic"
    paper: ClassVar[str] = "Qiao et al., OSDI'21"

    def __init__(
        self,
        power: Annotated[float, Parameter("p: the lower, the fairer", least=-10.0, most=1.0)] = -1.0,
        round_s: Annotated[float, Parameter("how long devices stay as they were given out", least=1.0)] = 60.0,
        population: Annotated[int, Parameter("allocations that are kept", least=2, most=1000)] = 100,
        generations: Annotated[int, Parameter("at most so many", least=1, most=1000)] = 100,
        seed: Annotated[int, Parameter("for random numbers", least=0)] = 0,
    ) -> None:
        self.power = power or -1e-9
        self.round_s = round_s
        self.population = population
        self.generations = generations
        self.seed = seed

    def starts(self, view: View) -> Starts:
        return least_starts(view)

    def begin(self, view: View, remembered: Floats) -> Holding:
        del remembered
        random = np.random.default_rng((self.seed, int(view.now)))
        worth, able, free = self.worth(view), in_reach(view), view.capacity.copy()
        options = np.full(len(view), -1)
        for rows in by_priority(view, view.sequence.argsort()):
            search = _Search(view, rows, worth[rows], able[rows], free, random)
            options[rows] = search.best(self.population, self.generations) - 1
            free -= devices_of(view, rows, options[rows])
        return chosen(view, options)

    def worth(self, view: View) -> Floats:
        """(rows, 1 + options) what nothing and each option add to the mean, whose largest sum is the best."""
        changes = np.arange(view.option_rate.shape[1]) != view.held[:, None]
        speedups = view.option_rate * np.where(changes, change_factor(view)[:, None], 1.0) / fair_rates(view)[:, None]
        every = np.column_stack((np.full(len(view), _ALONE), np.maximum(speedups, _ALONE)))
        return np.asarray(np.sign(self.power) * every**self.power)


def fair_rates(view: View) -> Floats:
    """Goodput of each row on 1/N of the devices of all kinds: the mean of what as many of each kind would give."""
    fair = float(view.capacity.sum()) / max(len(view), 1)
    rates = np.zeros(len(view))
    for kind, options in enumerate(view.by_kind):
        at = np.maximum((options.levels <= fair).sum(axis=1) - 1, 0)[:, None]
        count, rate = np.take_along_axis(options.levels, at, 1)[:, 0], np.take_along_axis(options.rates, at, 1)[:, 0]
        part = np.minimum(fair / np.maximum(count, 1), 1.0)
        rates += np.where(options.depth > 0, rate * part, 0.0) * view.capacity[kind] / max(int(view.capacity.sum()), 1)
    return np.where(rates > 0, rates, 1.0)


class _Search:
    """Allocations as lines of (0 for nothing, 1 + option) per row."""

    def __init__(
        self, view: View, rows: Ints, worth: Floats, able: Bools, free: Ints, random: np.random.Generator
    ) -> None:
        self._worth = worth
        self._random = random
        self._rows = np.arange(len(rows))
        self._capacity = free
        self._count = np.column_stack((np.zeros(len(rows), dtype=np.int64), view.option_count[rows]))
        self._kind = np.append(0, view.option_kind)
        self._able = able.sum(axis=1)
        self._open = np.argsort(~able, axis=1, kind="stable") + 1
        held = np.maximum(view.held[rows], 0)
        self._now = np.where((view.held[rows] >= 0) & able[self._rows, held], held + 1, 0)

    def best(self, population: int, generations: int) -> Ints:
        lines = self._repaired(np.vstack((self._now, self._mutated(np.tile(self._now, (population - 1, 1)), 1.0))))
        scores, stale = self._scores(lines), 0
        for _ in range(generations):
            before = scores.max()
            winners = self._winners(scores, 2 * population)
            mixed = np.where(
                self._random.random((population, len(self._rows))) < 0.5,
                lines[winners[:population]], lines[winners[population:]],
            )  # fmt: skip
            young = self._repaired(self._mutated(mixed, 1.0 / len(self._rows)))
            lines, scores = np.vstack((lines, young)), np.append(scores, self._scores(young))
            kept = np.argsort(-scores, kind="stable")[:population]
            lines, scores = lines[kept], scores[kept]
            stale = stale + 1 if scores[0] <= before else 0
            if stale == _STALE:
                break
        best: Ints = lines[0]
        return best

    def _scores(self, lines: Ints) -> Floats:
        return np.asarray(self._worth[self._rows, lines].sum(axis=1))

    def _winners(self, scores: Floats, count: int) -> Ints:
        one, two = self._random.integers(len(scores), size=(2, count))
        return np.asarray(np.where(scores[one] >= scores[two], one, two))

    def _mutated(self, lines: Ints, often: float) -> Ints:
        shape = lines.shape
        pick = (self._random.random(shape) * self._able).astype(np.int64)
        other = self._open[self._rows, np.minimum(pick, np.maximum(self._able - 1, 0))]
        other = np.where((self._random.random(shape) < _NOTHING) | (self._able == 0), 0, other)
        return np.where(self._random.random(shape) < often, other, lines)

    def _repaired(self, lines: Ints) -> Ints:
        """Jobs in random order keep what they have while there are devices of that kind."""
        order = np.argsort(self._random.random(lines.shape), axis=1)
        lines = np.take_along_axis(lines, order, axis=1)
        counts, kinds = self._count[order, lines], self._kind[lines]
        for kind, free in enumerate(self._capacity.tolist()):
            here = np.where(kinds == kind, counts, 0)
            lines = np.where((here > 0) & (here.cumsum(axis=1) > free), 0, lines)
        back = np.empty_like(lines)
        np.put_along_axis(back, order, lines, axis=1)
        return back
