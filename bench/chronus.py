"""Chronus' three public traces: the value that is missed, and how long jobs without a deadline take.

Philly's jobs on 120 nodes of 8 devices over two weeks: SLO (all deadlines strict), MIX1 (30 % without one), MIX2 (30 %
strict, 60 % soft with four deadlines worth 10, 8, 5 and 2, 10 % without). Value missed is 1 - value of what was
finished over the value of all jobs with a deadline, as in the published code. Gangs have the size they ask for, and
speed does not depend on the placement, as there.

``python -m bench.chronus [--traces SLO,MIX1] [--jobs N] [POLICY ...]``; about N jobs are taken at equal distances and
run on a cluster as much smaller, so that the load stays what it is.
"""

import argparse
import math
import sys
from dataclasses import dataclass, replace

from rich.console import Console
from rich.table import Table

from bench.data import DATA
from penstock.core import Cluster
from penstock.policies import POLICIES
from penstock.simulate import Setting, Summary, Workload, run_policy
from penstock.simulate.traces import Profiles, Trace, read_trace

TRACES = DATA.parent / "chronus" / "traces"
NODES, DEVICES = 120, 8
WANTED = (
    "chronus",
    "deadline",
    "unified",
    "fair",
    "edf",
    "srtf",
    "srtf:order=device-time",
    "tiresias",
    "themis",
    "fifo",
)
OURS = ("chronus", "deadline", "unified", "fair")
CLAIMED_MISS, CLAIMED_JCT = 14.7, 19.9
"""By how much Chronus is better than existing schedulers at most, from the paper's abstract; we know of no figures for
these traces, and the published code comes without the other schedulers."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Some of the jobs of a trace and the cluster that is as loaded by them as the whole one by all."""

    trace: Trace
    nodes: int

    @classmethod
    def of(cls, trace: Trace, jobs: int | None) -> "Cut":
        every = max(1, len(trace) // jobs) if jobs else 1
        kept = trace.jobs[::every]
        widest = math.ceil(max(job.devices for job in kept) / DEVICES)
        return cls(replace(trace, jobs=kept), max(NODES // every, widest))

    def run(self, policy: str) -> Summary:
        setting = Setting(cluster=Cluster.parse(f"{self.nodes}x{DEVICES}"), slot=60.0)
        return run_policy(policy, Workload(trace=self.trace, profiles=Profiles.builtin()), setting).summary


def main() -> None:
    parser = argparse.ArgumentParser(description="Chronus' traces under several policies.")
    parser.add_argument("policies", nargs="*", default=[name for name in WANTED if name.partition(":")[0] in POLICIES])
    parser.add_argument("--traces", default="SLO,MIX1,MIX2")
    parser.add_argument("--jobs", type=int, help="about so many jobs of each trace")
    given = parser.parse_args()
    if not TRACES.is_dir():
        print(f"skipped: Chronus' traces are not at {TRACES.parent.name}/{TRACES.name} beside the repository")
        return
    for name in given.traces.split(","):
        cut = Cut.of(read_trace(TRACES / f"trace_job_Philly_{name}.csv.gz"), given.jobs)
        results = [_told(cut.run(policy), policy) for policy in given.policies]
        Console(width=130).print(table_of(f"{name}: {len(cut.trace)} jobs on {cut.nodes}x{DEVICES}", results))
        Console(width=130).print(beside_the_paper(results))


def table_of(title: str, results: list[Summary]) -> Table:
    table = Table(
        "policy", "value missed", "in time", "JCT without deadline", "JCT", "promised", "broken", "preemptions",
        "p99 decision", "CPU s", title=title,
    )  # fmt: skip
    for one in results:
        table.add_row(
            one.policy, f"{one.value_missed:.4f}", f"{one.ratio:.4f}", _hours(one.best_effort_jct_s),
            _hours(one.jct_mean_s), str(one.promises), str(one.broken), str(one.suspensions),
            f"{one.decision_p99_ms:.0f} ms", f"{one.cpu_s:.0f}",
        )  # fmt: skip
    return table


def beside_the_paper(results: list[Summary]) -> str:
    """How much better the best of ours is than the worst of the others, beside what the paper claims at most."""
    ours = [one for one in results if one.policy in OURS]
    others = [one for one in results if one.policy not in OURS]
    if not ours or not others:
        return ""
    missed = max(one.value_missed for one in others) / max(min(one.value_missed for one in ours), 1e-9)
    said = f"value missed up to {missed:.1f}x lower (paper: up to {CLAIMED_MISS}x)"
    slowest = max(one.best_effort_jct_s for one in others)
    if not math.isnan(slowest):
        faster = slowest / min(one.best_effort_jct_s for one in ours)
        said += f", JCT without deadline up to {faster:.1f}x shorter (paper: up to {CLAIMED_JCT}x)"
    return said


def _told(found: Summary, policy: str) -> Summary:
    print(f"{policy}: {found.value_missed:.4f} missed, {found.cpu_s:.0f} s", file=sys.stderr, flush=True)
    return found


def _hours(seconds: float) -> str:
    return "-" if math.isnan(seconds) else f"{seconds / 3600:.2f} h"


if __name__ == "__main__":
    main()
