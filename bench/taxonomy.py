"""One table per trace: the policies by class, in one world.

Every policy runs twice. Without deadlines: mean and 99th percentile of completion times, makespan, interruptions, the
tenant that waits longest against a private, equal part of the cluster, the least of what a tenant's jobs held over what
they deserved, and how many jobs held less. With deadlines of 0.8 to 3 run times: the share met, of which declined jobs
are none. CPU seconds are those of both runs, the first of which may compile loops.
Jobs may run on other numbers of devices than they ask for, with speeds of models drawn from our profiles.

The ratios that papers claim stand beside ours below. They come from other clusters, traces and simulators and from
policies with parts that ours leave out, so they tell whether a policy is after the same thing, not how good it is.

``python -m bench.taxonomy [JOBS [POLICY …]]``: 500 jobs and all policies by default, overhead as measured.
"""

import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.cuts import Cut, generated, philly, venus
from penstock.core import TenantChanged
from penstock.policies import POLICIES, policy_named
from penstock.simulate import JobOutcome, Result, Summary, costs_named, simulate

LOAD = 1.5
SLOT_S = 60.0
DEADLINES = (0.8, 3.0)
CLASSES = {
    "efficiency, rigid": ("fifo", "srtf", "tiresias", "gandiva:quantum_s=10m", "lucid"),
    "efficiency, elastic": ("optimus", "afs"),
    "fairness": ("themis", "yarn-cs", "dynamic-quota", "astraea", "fair"),
    "deadlines": ("edf", "genie", "3sigma", "edf-admission", "elasticflow", "chronus", "deadline"),
    "mixed": ("unisched", "unified"),
}


@dataclass(frozen=True)
class Scores:
    """What two runs of a policy amount to."""

    without: Summary
    with_deadlines: Summary
    worst_tenant: float
    """Median over the jobs of the tenant treated worst: completion time over that on a private, equal part."""

    least_tenant: float
    """Device-seconds of its jobs over those that they deserved, of the tenant that got least."""

    def cells(self) -> list[str]:
        plain = self.without
        return [
            f"{plain.jct_mean_s / 3600:.2f}", f"{plain.jct_p99_s / 3600:.1f}", f"{plain.makespan_s / 3600:.1f}",
            f"{plain.suspensions / plain.jobs:.2f}", f"{plain.rescales / plain.jobs:.2f}",
            f"{100 * self.with_deadlines.ratio:.1f}", f"{self.worst_tenant:.2f}",
            f"{self.least_tenant:.2f}", str(plain.losses),
            f"{plain.cpu_s + self.with_deadlines.cpu_s:.1f}",
        ]  # fmt: skip


HEADINGS = (
    "JCT h",
    "p99 h",
    "makespan h",
    "stops/job",
    "resizes/job",
    "met %",
    "worst tenant",
    "tenant min",
    "losses",
    "CPU s",
)


@dataclass(frozen=True)
class Claim:
    """A published ratio of one figure of two policies; above 1 the first policy is better."""

    figure: str
    better: str
    worse: str
    published: str
    source: str

    def ours(self, scores: Mapping[str, Scores]) -> str:
        if not {self.better, self.worse} <= set(scores):
            return "-"
        better, worse = self._of(scores[self.better]), self._of(scores[self.worse])
        ratio = better / worse if self.figure == "met" else worse / better
        return f"{ratio:.2f}" if math.isfinite(ratio) else "-"

    def _of(self, scores: Scores) -> float:
        figures = {"JCT": scores.without.jct_mean_s, "makespan": scores.without.makespan_s}
        return figures.get(self.figure, scores.with_deadlines.ratio)


CLAIMS = (
    Claim("JCT", "tiresias", "yarn-cs", "up to 5.5", "Tiresias, NSDI'19: 60 GPUs"),
    Claim("JCT", "optimus", "themis", "2.39", "Optimus, EuroSys'18: against a fair scheduler"),
    Claim("makespan", "optimus", "themis", "1.63", "Optimus, EuroSys'18: against a fair scheduler"),
    Claim("JCT", "lucid", "tiresias", "1.1 to 1.3", "Lucid, ASPLOS'23: with packing; not checked"),
    Claim("JCT", "lucid", "fifo", "2 to 7", "Lucid, ASPLOS'23: with packing; not checked"),
    Claim("met", "elasticflow", "tiresias", "1.46", "ElasticFlow, ASPLOS'23: 195 jobs on 128 GPUs"),
    Claim("met", "elasticflow", "edf", "7.65", "ElasticFlow, ASPLOS'23: 195 jobs on 128 GPUs"),
)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    chosen = sys.argv[2:] or [
        name for names in CLASSES.values() for name in names if name.partition(":")[0] in POLICIES
    ]
    console = Console(width=150)
    found: dict[str, dict[str, Scores]] = {}
    for cut in (philly(count, LOAD), venus(count, LOAD), generated(count, LOAD)):
        if cut is not None:
            found[cut.name] = {name: score(name, cut) for name in _told(cut, chosen)}
            console.print(_table(cut, found[cut.name]))
    console.print(_claims(found))


def score(name: str, cut: Cut) -> Scores:
    plain, due = (run(name, cut, deadlines) for deadlines in (None, DEADLINES))
    return Scores(plain.summary, due.summary, worst_tenant(plain.outcomes), least_tenant(plain.outcomes))


def run(name: str, cut: Cut, deadlines: tuple[float, float] | None) -> Result:
    """With the shares of the tenants known from the beginning."""
    jobs = cut.workload(deadlines).jobs()
    shares = [TenantChanged(jobs[0].submitted_at, tenant) for tenant in cut.tenants]
    costs = costs_named("measured", cut.cluster, SLOT_S)
    return simulate(jobs, cut.cluster, policy_named(name), slot=SLOT_S, costs=costs, faults=shares)


def worst_tenant(outcomes: Iterable[JobOutcome]) -> float:
    by_tenant: defaultdict[str, list[float]] = defaultdict(list)
    for each in outcomes:
        if not math.isnan(each.fairness):
            by_tenant[each.tenant].append(each.fairness)
    return max((float(np.median(values)) for values in by_tenant.values()), default=math.nan)


def least_tenant(outcomes: Iterable[JobOutcome]) -> float:
    held: defaultdict[str, float] = defaultdict(float)
    deserved: defaultdict[str, float] = defaultdict(float)
    for each in outcomes:
        if each.deserved_s > 0:
            held[each.tenant] += each.device_seconds
            deserved[each.tenant] += each.deserved_s
    return min((held[tenant] / deserved[tenant] for tenant in deserved), default=math.nan)


def _told(cut: Cut, names: Sequence[str]) -> Iterable[str]:
    for number, name in enumerate(names, 1):
        print(f"{cut.name}: {name}, {number} of {len(names)}", file=sys.stderr, flush=True)
        yield name


def _class_of(name: str) -> str:
    plain = name.partition(":")[0]
    classes = {each.partition(":")[0]: title for title, names in CLASSES.items() for each in names}
    return classes.get(plain, "yours")


def _table(cut: Cut, scores: Mapping[str, Scores]) -> Table:
    table = Table("class", "policy", *HEADINGS, title=str(cut))
    for name, each in scores.items():
        table.add_row(_class_of(name), name, *each.cells())
    return table


def _claims(found: Mapping[str, Mapping[str, Scores]]) -> Table:
    table = Table("how many times better", "published", *(f"ours, {cut}" for cut in found), "source")
    for claim in CLAIMS:
        ours = (claim.ours(scores) for scores in found.values())
        table.add_row(f"{claim.figure}: {claim.better} than {claim.worse}", claim.published, *ours, claim.source)
    return table


if __name__ == "__main__":
    main()
