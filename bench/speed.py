"""CPU seconds per trace and policy on one core, beside those of the public simulator.

Only the simulation is timed, after one warm-up run that loads the compiled loops; reading the trace and starting
Python are not included (the public simulator's figures include about 2 s of that). The figures of the public simulator
were measured on such a machine with its unmodified code; they are quoted, not re-run.
"""

import time

from rich.console import Console
from rich.table import Table

from bench.data import CASES, Case, need_data
from penstock.simulate import run_policy

PUBLIC = {"195job": 16.7, "cluster10": 13.9, "elasticVpollux_e": 19.7}
POLICIES = ("deadline", "elasticflow", "elasticflow-artifact")
REPEATS = 3


def main() -> None:
    need_data()
    table = Table("trace", "jobs", *(f"{name} s" for name in POLICIES), "public simulator s", "times less")
    for case in CASES:
        run_policy(POLICIES[0], case.workload(), case.setting())
        times = [cpu_seconds(case, name) for name in POLICIES]
        public = PUBLIC.get(case.trace)
        less = " / ".join(f"{public / seconds:.0f}x" for seconds in times) if public else "-"
        jobs = str(len(case.workload().trace))
        table.add_row(case.trace, jobs, *(f"{s:.3f}" for s in times), str(public or "-"), less)
    Console(width=150).print(table)


def cpu_seconds(case: Case, policy: str) -> float:
    """The best of a few runs."""
    if policy.endswith("-artifact") and case.trace not in PUBLIC:
        return float("nan")
    workload, setting = case.workload(), case.setting()
    best = float("inf")
    for _ in range(REPEATS if case.trace in PUBLIC else 1):
        started = time.process_time()
        run_policy(policy, workload, setting)
        best = min(best, time.process_time() - started)
    return best


if __name__ == "__main__":
    main()
