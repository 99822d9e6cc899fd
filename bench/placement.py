"""How fast placement strategies are, and what their placements are worth, side by side.

``python -m bench.placement`` keeps a cluster at a given load by starting a job for every job it ends. The first table
has small jobs only, where nobody needs to move; the others have widths up to eight nodes on a nearly full
cluster, where strategies differ in the nodes their jobs span, in the holes they leave and in the jobs they move.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.core import DEFAULT_KIND, Cluster
from penstock.placement import PLACEMENTS, Ask, Occupancy, Placement, placement_named


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    title: str
    cluster: str
    load: float
    widths: tuple[int, ...]
    steps: int


WORKLOADS = (
    Workload(title="small jobs", cluster="1250x8", load=0.85, widths=(1, 2, 4), steps=20_000),
    Workload(title="mixed", cluster="1250x8", load=0.998, widths=(1, 2, 4, 8, 16, 64), steps=3_000),
    Workload(title="odd widths", cluster="1250x8", load=0.998, widths=(1, 2, 3, 5, 8, 12, 40), steps=3_000),
    Workload(title="odd nodes", cluster="500x6+500x8", load=0.998, widths=(1, 2, 4, 8, 16, 64), steps=3_000),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    placements: int
    seconds: float
    moves: int
    excess_nodes: float
    fragmentation: float

    def row(self, name: str) -> str:
        return (
            f"{name:<10} {self.placements / self.seconds:>12,.0f} {1e6 * self.seconds / self.placements:>8.1f}"
            f" {self.moves:>7,} {self.excess_nodes:>8.1%} {self.fragmentation:>8.1%}"
        )


class Churn:
    """A cluster held at its load: every step ends random jobs and starts one."""

    def __init__(self, workload: Workload, strategy: Placement, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._widths = workload.widths
        self._strategy = strategy
        self._occupancy = Occupancy(Cluster.parse(workload.cluster), DEFAULT_KIND)
        self._idle = round((1 - workload.load) * self._occupancy.capacity)
        self._running: list[int] = []
        self._started = 0
        self._moves = 0
        self._seconds = 0.0
        while self._occupancy.free - max(self._widths) >= self._idle:
            self._step()

    def run(self, steps: int) -> Outcome:
        self._seconds, self._moves = 0.0, 0
        for _ in range(steps):
            self._step()
        return Outcome(
            placements=steps,
            seconds=self._seconds,
            moves=self._moves,
            excess_nodes=self._excess_nodes(),
            fragmentation=self._occupancy.fragmentation(),
        )

    def _step(self) -> None:
        width = self._random.choice(self._widths)
        ending = self._pick_ending(width)
        ask = [Ask(self._started, width)]
        begin = time.perf_counter()
        for key in ending:
            self._occupancy.release(key)
        changed = self._strategy.place(self._occupancy, ask)
        self._seconds += time.perf_counter() - begin
        self._moves += len(changed) - 1
        self._running.append(self._started)
        self._started += 1

    def _pick_ending(self, width: int) -> Sequence[int]:
        ending: list[int] = []
        missing = self._idle + width - self._occupancy.free
        while missing > 0:
            ending.append(self._pop_random())
            missing -= self._occupancy.width(ending[-1])
        return ending

    def _pop_random(self) -> int:
        chosen = self._random.randrange(len(self._running))
        self._running[chosen], self._running[-1] = self._running[-1], self._running[chosen]
        return self._running.pop()

    def _excess_nodes(self) -> float:
        occupancy = self._occupancy
        fewest = sum(occupancy.fewest_nodes(occupancy.width(key)) for key in self._running)
        return sum(occupancy.nodes_of(key) for key in self._running) / fewest - 1


def main() -> None:
    for workload in WORKLOADS:
        print(f"\n{workload.title}: {workload.cluster}, {workload.load:.1%} full, widths {workload.widths}")
        print(f"{'strategy':<10} {'placements/s':>12} {'us each':>8} {'moves':>7} {'excess':>8} {'in holes':>8}")
        for name in PLACEMENTS:
            print(Churn(workload, placement_named(name)).run(workload.steps).row(name))


if __name__ == "__main__":
    main()
