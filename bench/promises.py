"""Promises given and broken over many generated worlds, and how many deadlines are met in the end.

Every world is another cluster, load, pattern of arrivals and overhead, with exact curves: not one promise may be
broken. The policy's settings were chosen on the recipe's worlds with other seeds; the other kinds of worlds had no part
in that. ``python -m bench.promises [--seeds N] [--policy NAME]``.
"""

import argparse
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

from rich.console import Console
from rich.table import Table

from penstock.core import Cluster, Curve, Deadline, Job, Scaling, Work
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


@dataclass(frozen=True)
class Tally:
    jobs: int
    met: int
    promises: int
    late_s: tuple[float, ...]
    cpu_s: float


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


def tally(task: tuple[int, int, str]) -> Tally:
    world, seed, policy = WORLDS[task[0]], task[1], task[2]
    cluster, begun = Cluster.parse(world.cluster), time.process_time()
    placement = placement_named(world.placement) if world.placement else None
    result = simulate(
        world.jobs(cluster, seed), cluster, policy_named(policy), slot=SLOT_S, placement=placement,
        costs=costs_named(world.overhead, cluster, SLOT_S),
    )  # fmt: skip
    late = tuple(
        each.finished_at - each.deadline for each in result.outcomes
        if each.promised and not each.finished_at <= each.deadline + 1e-3
    )  # fmt: skip
    summary = result.summary
    return Tally(summary.jobs, summary.met, summary.promises, late, time.process_time() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1000, help="the first seed")
    parser.add_argument("--policy", nargs="+", default=("deadline", "unified"))
    given = parser.parse_args()
    for policy in given.policy:
        _show(policy, range(given.first, given.first + given.seeds))


def _show(policy: str, seeds: Sequence[int]) -> None:
    table = Table("world", "jobs", "met", "promised", "broken", "latest by", "CPU s", title=policy)
    totals = [0, 0]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for index, world in enumerate(WORLDS):
            tasks = [(index, seed, policy) for seed in seeds]
            tallies = list(pool.map(tally, tasks))
            table.add_row(world.name, *_figures(tallies))
            totals[0] += sum(each.promises for each in tallies)
            totals[1] += sum(len(each.late_s) for each in tallies)
            print(f"{world.name}: {' '.join(_figures(tallies))}", flush=True)
    Console(width=120).print(table)
    print(f"{policy}: {totals[0]:,} promises, {totals[1]} broken")


def _figures(tallies: list[Tally]) -> Iterator[str]:
    jobs, late = sum(each.jobs for each in tallies), [each for tally in tallies for each in tally.late_s]
    yield str(jobs)
    yield f"{sum(each.met for each in tallies) / jobs:.4f}"
    yield str(sum(each.promises for each in tallies))
    yield str(len(late))
    yield f"{max(late):.0f} s" if late else "-"
    yield f"{sum(each.cpu_s for each in tallies):.1f}"


if __name__ == "__main__":
    main()
