"""The first thing a newcomer runs: a made-up day on a small cluster under five policies, with a picture of each."""

import shutil
from pathlib import Path

from penstock.cli.study.simulate import comparison
from penstock.cli.terminal.console import bars, out, percent, say
from penstock.core import Cluster
from penstock.simulate import (
    Profiles,
    Result,
    Setting,
    Workload,
    compare,
    draw,
    generate,
    interval_for_load,
    read_trace,
    write_trace,
)

POLICIES = ("deadline", "elasticflow", "edf", "tiresias", "fifo")
JOBS = 200
CLUSTER = "4x8"
LOAD = 3.0
"""Three times what the cluster could serve if every job got what it asks for: a bad day."""


def main(directory: Path = Path("demo-output")) -> None:
    """Make a trace, run it five times, draw who ran where, and say what it means."""
    cluster, profiles = Cluster.parse(CLUSTER), Profiles.builtin()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    path = directory / "trace.csv"
    interval = interval_for_load(LOAD, cluster.device_count)
    write_trace(path, generate(JOBS, seed=1, profiles=profiles, mean_interval_s=interval, best_effort=0.1))
    workload = Workload(trace=read_trace(path), profiles=profiles)
    setting = Setting(cluster=cluster, overhead="measured", timeline=True)
    say("comparing five policies (the first run compiles the planning loops, which takes a moment)")
    with bars(POLICIES, JOBS) as update:
        results = compare(POLICIES, workload, setting, on_progress=update)
    for result in results:
        (directory / f"{result.summary.policy}.html").write_text(draw(result, cluster), encoding="utf-8")
    out.print(comparison(workload, setting, results))
    out.print()
    for line in _conclusion(results, directory):
        out.print(line, soft_wrap=True)


def _conclusion(results: list[Result], directory: Path) -> list[str]:
    ours, queue = results[0].summary, results[-1].summary
    return [
        f"{JOBS} training jobs came to {CLUSTER} devices; {ours.jobs - ours.best_effort} of them had a deadline.",
        f"First come, first served met {percent(queue.ratio)} of the deadlines; Penstock met {percent(ours.ratio)}, "
        f"promised {ours.promises} in advance and broke {ours.broken} of those promises.",
        f"See who ran where: open {directory}/deadline.html and {directory}/fifo.html in a browser.",
    ]


if __name__ == "__main__":
    main()
