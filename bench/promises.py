"""Promises given and broken over many generated worlds, and how many deadlines are met in the end.

Every world is another cluster, load, pattern of arrivals and overhead, with exact curves: not one promise may be
broken. The policy's settings were chosen on the recipe's worlds with other seeds; the other kinds of worlds had no part
in that. The *tight* worlds of :mod:`bench.tight_worlds` are judged by the independent books of :mod:`bench.books`, the
others by the simulator. A promise is broken if its job ends more than a millisecond late, whatever the cause.
``python -m bench.promises [--seeds N] [--policy NAME] [--only tight] [--world WORDS]``.
"""

import argparse
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

from rich.console import Console
from rich.table import Table

from bench.tight_worlds import TIGHT_WORLDS, TightWorld
from penstock.core import LATE_TOLERANCE_S, Cluster, Curve, Deadline, Job, Scaling, Work
from penstock.placement import placement_named
from penstock.policies import policy_named
from penstock.simulate import Profiles, costs_named, generate, simulate
from penstock.simulate.traces import interval_for_load, jobs_of

SLOT_S = 60.0


@dataclass(frozen=True)
class World:
    """A kind of world; ``jobs`` draws the jobs of one seed on a cluster."""

    name: str
    cluster: str
    overhead: str
    jobs: Callable[[Cluster, int], list[Job]]
    placement: str | None = None

    def play(self, seed: int, policy: str) -> "Tally":
        """One seed under a policy."""
        cluster, begun = Cluster.parse(self.cluster), time.process_time()
        placement = placement_named(self.placement) if self.placement else None
        result = simulate(
            self.jobs(cluster, seed), cluster, policy_named(policy), slot=SLOT_S, placement=placement,
            costs=costs_named(self.overhead, cluster, SLOT_S),
        )  # fmt: skip
        late = {
            each.id: each.finished_at - each.deadline for each in result.outcomes
            if each.promised and not each.finished_at <= each.deadline + LATE_TOLERANCE_S
        }  # fmt: skip
        summary = result.summary
        return Tally(summary.jobs, summary.met, summary.promises, seed, late, time.process_time() - begun)


@dataclass(frozen=True)
class Tally:
    """One seed of a world; ``late_s`` by job. Of the held counter-offers that were accepted in time, how many were
    promised and kept. ``problems`` are contradictions that the independent books found."""

    jobs: int
    met: int
    promises: int
    seed: int
    late_s: Mapping[str, float]
    cpu_s: float
    accepted: int = 0
    honoured: int = 0
    problems: tuple[str, ...] = ()


def from_recipe(load: float, count: int = 400, tenants: int = 1) -> Callable[[Cluster, int], list[Job]]:
    """The jobs of ``penstock trace generate``."""

    def jobs(cluster: Cluster, seed: int) -> list[Job]:
        profiles = Profiles.builtin()
        interval = interval_for_load(load, cluster.device_count)
        drawn = generate(count, seed=seed, profiles=profiles, mean_interval_s=interval, tenants=tenants)
        return list(jobs_of(drawn, profiles))

    return jobs


def at_once(cluster: Cluster, seed: int) -> list[Job]:
    """Everybody asks in the first second."""
    return [_moved(job, index / 1000) for index, job in enumerate(from_recipe(2.0, 600)(cluster, seed))]


def in_bursts(cluster: Cluster, seed: int) -> list[Job]:
    """Twenty at a time, every few hours."""
    rng = random.Random(seed)
    jobs, at = [], 0.0
    for index, job in enumerate(from_recipe(2.0)(cluster, seed)):
        at += rng.expovariate(1 / 9000) if index % 20 == 0 else 0.0
        jobs.append(_moved(job, at))
    return jobs


def of_odd_widths(cluster: Cluster, seed: int, *, spread: bool = False) -> list[Job]:
    """Gangs of 3, 5, 6, 7 and 11 among others, elastic or not; ``spread`` slows those that are not compact."""
    rng = random.Random(seed)
    jobs, at = [], 0.0
    for index in range(300):
        at += rng.expovariate(cluster.device_count / 40_000)
        widths = sorted(rng.sample((1, 2, 3, 5, 6, 7, 11), rng.randint(1, 4)))
        rates = [width ** rng.uniform(0.7, 1.0) for width in widths]
        rates = [max(rates[: place + 1]) + 1e-6 * place for place in range(len(rates))]
        slower = [(width, nodes, rate * 0.6) for width, rate in zip(widths, rates, strict=True) if width > 1
                  for nodes in range(2, width + 1)]  # fmt: skip
        scaling = Scaling(counts=tuple(widths), rates=tuple(rates), spread=tuple(slower) if spread else ())
        work = 60.0 * 10 ** rng.uniform(0.5, 3.0)
        due = at + work / rates[0] * rng.uniform(0.8, 3.0)
        jobs.append(Job(id=f"odd-{index}", work=Work(work), curve=Curve((("*", scaling),)), goal=Deadline(due),
                        submitted_at=at, requested=widths[0]))  # fmt: skip
    return jobs


def on_two_kinds(cluster: Cluster, seed: int) -> list[Job]:
    """Some jobs are three times as fast on the first kind, some hardly faster; some run on one of them only."""
    rng = random.Random(seed)
    return [_with_kinds(job, cluster.kinds, rng) for job in from_recipe(1.5)(cluster, seed)]


def _moved(job: Job, at: float) -> Job:
    return replace(job, submitted_at=at, goal=Deadline(at + job.deadline - job.submitted_at))


def _with_kinds(job: Job, kinds: tuple[str, ...], rng: random.Random) -> Job:
    scaling, factor = job.curve.scalings[0][1], rng.uniform(1.1, 3.0)
    slower = replace(scaling, rates=tuple(rate / factor for rate in scaling.rates))
    choices = [((kinds[0], scaling), (kinds[1], slower)), ((kinds[0], scaling),), ((kinds[1], slower),)]
    return replace(job, curve=Curve(rng.choices(choices, (0.8, 0.1, 0.1))[0]))


WORLDS = (
    *(World(f"recipe, load {load:g}", "8x8", "measured", from_recipe(load)) for load in (0.5, 1, 1.5, 2, 3, 4)),
    World("recipe, load 3, rescheduling free", "8x8", "none", from_recipe(3)),
    World("recipe, load 1.5, the artifact's overhead", "8x8", "artifact", from_recipe(1.5)),
    World("recipe, load 2, 16 nodes of 4", "16x4", "measured", from_recipe(2)),
    World("recipe, load 2, eight tenants", "8x8", "measured", from_recipe(2, tenants=8)),
    World("600 at once", "16x8", "none", at_once),
    World("bursts of 20", "8x8", "measured", in_bursts),
    World("odd widths", "8x8", "none", of_odd_widths),
    World("odd widths, changes cost", "8x8", "measured", of_odd_widths),
    *(World(f"slower when spread, {placement}", "8x8", "measured",
            lambda cluster, seed: of_odd_widths(cluster, seed, spread=True), placement)
      for placement in ("buddy", "best-fit", "first-fit")),
    World("two kinds", "4x8xA100-80GB+8x4xT4", "measured", on_two_kinds),
)  # fmt: skip


EVERY: Mapping[str, Sequence[World | TightWorld]] = {"recipe": WORLDS, "tight": TIGHT_WORLDS}


def play_tight(world: TightWorld, seed: int, policy: str) -> Tally:
    begun, books = time.process_time(), world.play(seed, policy)
    late = {entry.job.id: entry.finished_at - entry.deadline for entry in books.broken}
    accepted = books.accepted
    return Tally(
        len(books.entries), books.met, books.promises, seed, late, time.process_time() - begun, len(accepted),
        sum(entry.is_promised and not entry.is_broken for entry in accepted), tuple(books.problems),
    )  # fmt: skip


def tally(task: tuple[str, int, int, str]) -> Tally:
    """The world is named by group and position: its functions do not travel between processes."""
    group, index, seed, policy = task
    world = EVERY[group][index]
    return play_tight(world, seed, policy) if isinstance(world, TightWorld) else world.play(seed, policy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1000, help="the first seed")
    parser.add_argument("--policy", nargs="+", default=("deadline", "unified"))
    parser.add_argument("--only", choices=tuple(EVERY), help="one group of worlds; default: all of them")
    parser.add_argument("--world", default="", help="only worlds whose name has these words; default: all of them")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    given = parser.parse_args()
    groups = (given.only,) if given.only else tuple(EVERY)
    worlds = [(group, index) for group in groups for index, world in enumerate(EVERY[group])
              if given.world in world.name]  # fmt: skip
    for policy in given.policy:
        _show(policy, worlds, range(given.first, given.first + given.seeds), given.processes)


def _show(policy: str, worlds: Sequence[tuple[str, int]], seeds: Sequence[int], processes: int) -> None:
    table = Table("world", "jobs", "met", "promised", "broken", "latest by", "offers", "CPU s", title=policy)
    every = list[Tally]()
    with ProcessPoolExecutor(processes) as pool:
        for group, index in worlds:
            tallies = list(pool.map(tally, [(group, index, seed, policy) for seed in seeds]))
            name, every = EVERY[group][index].name, every + tallies
            table.add_row(name, *_figures(tallies))
            print(f"{name}: {' | '.join(_figures(tallies))}", flush=True)
            for each in tallies:
                for job, late_s in each.late_s.items():
                    print(f"    seed {each.seed}: {job} was promised and ends {late_s:g} s late", flush=True)
                for problem in each.problems:
                    print(f"    seed {each.seed}: {problem}", flush=True)
    Console(width=120).print(table)
    promises, broken = sum(each.promises for each in every), sum(len(each.late_s) for each in every)
    accepted, honoured = sum(each.accepted for each in every), sum(each.honoured for each in every)
    problems, cpu_s = sum(len(each.problems) for each in every), sum(each.cpu_s for each in every)
    print(
        f"{policy}: {promises:,} promises, {broken} broken, whatever the cause; {accepted:,} counter-offers accepted "
        f"while they were held, {honoured:,} promised and kept; "
        f"{problems} contradictions in the books; {cpu_s:.0f} CPU s",
        flush=True,
    )


def _figures(tallies: list[Tally]) -> Iterator[str]:
    jobs, late = sum(each.jobs for each in tallies), [each for tally in tallies for each in tally.late_s.values()]
    accepted = sum(each.accepted for each in tallies)
    yield str(jobs)
    yield f"{sum(each.met for each in tallies) / jobs:.4f}"
    yield str(sum(each.promises for each in tallies))
    yield str(len(late))
    yield f"{max(late):.0f} s" if late else "-"
    yield f"{sum(each.honoured for each in tallies)} of {accepted}" if accepted else "-"
    yield f"{sum(each.cpu_s for each in tallies):.1f}"


if __name__ == "__main__":
    main()
