"""Deadlines met on the public traces: ours beside the paper's policies, published values and the ceiling.

Everything runs in this one go under the overhead model and width caps of the public simulator.
`python -m bench.deadline [TRACE ...]` picks traces; `--all` adds the synthetic ones.
"""

import sys

from rich.console import Console
from rich.table import Table

from bench.data import CASES, SYNTHETIC, Case, need_data
from penstock.core import Job
from penstock.simulate import Summary, run_policy

PUBLISHED = {
    "195job": 0.667, "elasticVpollux_e": 0.728, "cluster01": 0.788, "cluster02": 0.822, "cluster03": 0.455,
    "cluster04": 0.631, "cluster05": 0.832, "cluster06": 0.607, "cluster10": 0.981, "philly_103959": 0.87,
}  # fmt: skip
"""ElasticFlow's own figures 6b, 8a and 8b (Gu et al., ASPLOS'23)."""
TO_BEAT = {
    "195job": 0.897, "elasticVpollux_e": 0.826, "cluster01": 0.977, "cluster02": 0.956, "cluster03": 0.750,
    "cluster05": 0.974, "cluster06": 0.840, "cluster10": 0.988, "philly_103959": 0.928,
}  # fmt: skip
"""The best known to us before, from a prototype under a milder overhead model."""
POLICIES = ("deadline:hold_s=0", "unified:hold_s=0", "elasticflow", "edf-admission")
"""No job of a trace accepts a counter-offer, so none is held."""


def main() -> None:
    need_data()
    chosen = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    cases = [*CASES, *(SYNTHETIC if "--all" in sys.argv else ())]
    table = Table("trace", "cluster", "jobs", *POLICIES, "broken promises", "to beat", "published", "ceiling", "CPU s")
    for case in cases:
        if chosen and case.trace not in chosen:
            continue
        table.add_row(*row(case))
    Console(width=150).print(table)


def row(case: Case) -> list[str]:
    workload = case.workload()
    results: list[Summary] = [run_policy(name, workload, case.setting()).summary for name in POLICIES]
    ours = results[0]
    return [
        case.trace,
        case.cluster,
        str(ours.jobs),
        *(f"{result.met} = {result.ratio:.4f}" for result in results),
        " / ".join(str(result.broken) for result in results),
        f"{TO_BEAT[case.trace]:.3f}" if case.trace in TO_BEAT else "-",
        f"{PUBLISHED[case.trace]:.3f}" if case.trace in PUBLISHED else "-",
        f"{ceiling(list(workload.jobs())):.4f}",
        f"{ours.cpu_s:.2f}",
    ]


def ceiling(jobs: list[Job]) -> float:
    """Share of deadlines that could be met by jobs alone on an empty cluster at their cap, without overhead."""
    possible = sum(job.work.iterations / job.curve.levels(at_most=job.at_most)[-1][1] <= _slack(job) for job in jobs)
    return possible / len(jobs)


def _slack(job: Job) -> float:
    return job.deadline - job.submitted_at


if __name__ == "__main__":
    main()
