"""Astraea's 500 jobs of 20 tenants on 256 devices: completion times and long-term fairness of policies.

Beside the figures of the published simulator on the 417 jobs that it does not drop (those of at most 12 devices, each
tenant's whole share there), with its lease of 900 s and its tenants' phase in every row; a second table has all 500.
``python -m bench.astraea [POLICY ...]``.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from penstock.core import Cluster
from penstock.simulate import Setting, Summary, Workload, run_policy
from penstock.simulate.traces import Profiles, read_trace

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "astraea"
CLUSTER, TICK_S, SHARE = "32x8", 10.0, 12
POLICIES = (
    "fair",
    "unified",
    "astraea",
    "astraea:order=fairness",
    "astraea:order=2das",
    "astraea:order=srtf",
    "astraea:order=fifo",
    "themis",
    "srtf",
    "fifo",
)
PUBLISHED = (
    ("their FIFO", 6046, 0.84, 1.43, 150, 215),
    ("their 2DAS", 6208, 0.76, 1.80, 144, 221),
    ("their SRTF (oracle)", 5250, 0.90, 1.54, 106, 255),
    ("their Themis (oracle)", 5327, 0.83, 1.60, 95, 252),
    ("their Astraea, fairness", 6087, 0.76, 1.46, 141, 218),
)
"""Measured with the artifact: mean completion time, least and most of tenants, jobs with a loss and a benefit."""


def main() -> None:
    if not DATA.is_dir():
        print(f"skipped: the public traces are not at {DATA.parent.name}/{DATA.name} beside the repository")
        return
    policies = sys.argv[1:] or POLICIES
    _show("The 417 jobs of at most 12 devices", PUBLISHED, _runs(policies, SHARE))
    _show("All 500 jobs", (), _runs(policies, None))


def _runs(policies: Sequence[str], widest: int | None) -> list[Summary]:
    """Without the trace's expected times, which nobody was promised there."""
    trace = read_trace(DATA / "synthetic_500jobs.csv")
    jobs = (replace(job, deadline=None) for job in trace if widest is None or job.devices <= widest)
    trace = replace(trace, jobs=tuple(jobs))
    workload = Workload(trace=trace, profiles=Profiles.builtin())
    setting = Setting(cluster=Cluster.parse(CLUSTER), slot=TICK_S)
    return [run_policy(policy, workload, setting).summary for policy in policies]


def _show(title: str, published: Sequence[tuple[str, int, float, float, int, int]], ours: Sequence[Summary]) -> None:
    table = Table("policy", "mean JCT s", "p99 JCT s", "tenants least", "most", "loss", "benefit", "stops", "CPU s")
    table.title = title
    for name, jct, least, most, losses, benefits in published:
        table.add_row(name, str(jct), "", f"{least:.2f}", f"{most:.2f}", str(losses), str(benefits), "", "13-19")
    table.add_section()
    for s in ours:
        table.add_row(
            s.policy, f"{s.jct_mean_s:.0f}", f"{s.jct_p99_s:.0f}", f"{s.tenant_fairness_least:.2f}",
            f"{s.tenant_fairness_most:.2f}", str(s.losses), str(s.benefits), str(s.suspensions), f"{s.cpu_s:.2f}",
        )  # fmt: skip
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
