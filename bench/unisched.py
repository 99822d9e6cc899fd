"""Jobs of which half end when a metric is reached: what forecasts of their ends are worth.

The first table holds forecasts against what happened: how often training took no longer than the 90 % quantile, on the
families of learning curves that the forecast was tuned on, on others whose figures were looked at meanwhile, and on
families that were added when its settings stood. The second runs generated
jobs, half of them with a deadline, half of all ending by their metric, beside a scheduler that knows every end and one
that ignores metrics. UniSched (Gao et al., IEEE TC 2024) published no artifact; the mix is reconstructed from its
abstract. ``python -m bench.unisched [--curves N] [--jobs N] [--seeds N]``.
"""

import argparse
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from penstock.core import Cluster, Job
from penstock.learn import forecast_metric
from penstock.policies import policy_named
from penstock.simulate import (
    CONSULTED,
    STRANGERS,
    TUNED,
    CurveFamily,
    Profiles,
    StopKnowledge,
    StoppingJobs,
    costs_named,
    draw_curve,
    generate,
    interval_for_load,
    simulate,
    target_at,
)
from penstock.simulate.traces import jobs_of

_KNOWN = (0.2, 0.4, 0.6, 0.8)
"""Shares of the true length at which forecasts are made."""
_MOST = 10_000.0
_CLUSTER = "4x8"
_POLICIES = ("deadline", "elasticflow", "srtf")
_SLOT_S = 60.0


class Forecasted(NamedTuple):
    """One forecast beside the truth, in steps."""

    end: float
    median: float
    safe: float
    seconds: float


def forecasts(families: Sequence[CurveFamily], count: int, seed: int) -> list[Forecasted]:
    """``count`` curves of each family, each forecast at several moments."""
    found = []
    for number, family in enumerate(families):
        rng = np.random.default_rng([seed, number])
        for _ in range(count):
            curve = draw_curve(family, _MOST, rng)
            rule = target_at(curve, float(rng.uniform(0.3, 1.0)))
            points, end = curve.points(), curve.end(rule)
            for share in _KNOWN:
                began = time.process_time()
                forecast = forecast_metric(rule, [point for point in points if point[0] <= share * end], _MOST)
                if forecast is not None:
                    told = forecast.outlook
                    found.append(Forecasted(end, told.median, told.safe, time.process_time() - began))
    return found


def coverage_table(count: int, seed: int) -> Table:
    table = Table("curves", "forecasts", "within 90 % quantile", "median off by", "quantile / truth", "CPU ms")
    tuned = [(f"tuned on: {family}", (family,)) for family in TUNED]
    consulted = [(f"looked at: {family}", (family,)) for family in CONSULTED]
    strangers = [(f"added later: {family}", (family,)) for family in STRANGERS]
    groups = (*tuned, ("tuned on, all", TUNED), *consulted, ("looked at, all", CONSULTED))
    for name, families in (*groups, *strangers, ("added later, all", STRANGERS)):
        rows = np.array(forecasts(families, count, seed))
        end, median, safe, seconds = rows.T
        table.add_row(
            name, str(len(rows)), f"{(end <= safe).mean():.3f}", f"{np.median(np.abs(median - end) / end):.1%}",
            f"{(safe / end).mean():.2f}", f"{1e3 * seconds.mean():.1f}",
        )  # fmt: skip
    return table


def jobs_of_seed(count: int, load: float, seed: int) -> list[Job]:
    """Half with a deadline of 0.7 to 1.5 times their length, half without."""
    profiles = Profiles.builtin()
    interval = interval_for_load(load, Cluster.parse(_CLUSTER).device_count)
    drawn = generate(
        count, seed=seed, profiles=profiles, mean_interval_s=interval, lambda_range=(0.7, 1.5), best_effort=0.5
    )
    return list(jobs_of(drawn, profiles))


def scheduling_table(count: int, seeds: int, load: float) -> Table:
    title = f"{seeds} x {count} jobs at load {load:g} on {_CLUSTER}"
    table = Table("policy", "ends known by", "missed", "broken", "JCT best effort", "JCT all", "CPU s", title=title)
    for policy in _POLICIES:
        for knowledge in StopKnowledge:
            table.add_row(policy, knowledge.value, *_figures(policy, knowledge, count, seeds, load))
    return table


def _figures(policy: str, knowledge: StopKnowledge, count: int, seeds: int, load: float) -> list[str]:
    missed, broken, best_effort, everybody, cpu = 0, 0, [], [], 0.0
    with_deadline = 0
    cluster = Cluster.parse(_CLUSTER)
    for seed in range(seeds):
        result = simulate(
            jobs_of_seed(count, load, seed), cluster, policy_named(policy), slot=_SLOT_S,
            costs=costs_named("measured", cluster, _SLOT_S),
            stopping=StoppingJobs(share=0.5, knowledge=knowledge, families=CONSULTED, seed=seed),
        )  # fmt: skip
        summary = result.summary
        with_deadline += summary.jobs - summary.best_effort
        missed += summary.jobs - summary.best_effort - summary.met
        broken += summary.broken
        everybody += [each.completion_s for each in result.outcomes if each.completion_s > 0]
        best_effort += [
            each.completion_s for each in result.outcomes if each.completion_s > 0 and np.isinf(each.deadline)
        ]
        cpu += summary.cpu_s
    hours = [f"{np.mean(times) / 3600:.2f} h" for times in (best_effort, everybody)]
    return [f"{missed / with_deadline:.1%}", str(broken), *hours, f"{cpu:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--curves", type=int, default=100, help="of each family")
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--load", type=float, default=6.0)
    options = parser.parse_args()
    console = Console()
    console.print(coverage_table(options.curves, seed=100))
    console.print(scheduling_table(options.jobs, options.seeds, options.load))


if __name__ == "__main__":
    main()
