"""Six months of one pretraining on 2,048 devices under the failures that Acme saw: how much of the time is productive.

Failures are drawn by cause at the rates of Acme's table (Hu et al., NSDI 2024, as we recall it: counts over six months
and minutes to restart), per device-hour of its two clusters, and are the same for every row. Causes that a script
brings along (wrong paths, types, keys) are left out: a run that lasts for months has none of them left.
Each row adds one thing that Penstock does to the row above:

* *by hand*: synchronous checkpoints every half hour; a person restarts, after as many minutes as in the table;
* *restarted by itself*: named by the doctor, its node cordoned, begun again from the newest checkpoint;
* *asynchronous checkpoints*: so cheap that the interval of Young and Daly is short;
* *survivors go on*: a lost node costs its step and a pause, and its devices until it is repaired.

What a checkpoint, a restart and a pause cost at this size is an assumption, printed with the table; this machine can
measure them for a few processes only. ``python -m bench.six_months [--seeds N]``.
"""

import argparse
import math
from dataclasses import dataclass, replace

import numpy as np
from rich.console import Console
from rich.table import Table

DEVICES, NODE = 2048, 8
HOURS = 182.5 * 24
STUDIED_DEVICE_HOURS = (21.51e9 + 5.33e9) / 3600
"""GPU time of Seren and Kalos over the six months: summary table of InternLM/AcmeTrace."""
REPLACED, TRANSIENT, HUMAN = "a node is replaced", "goes away by itself", "a person has to mend it"


@dataclass(frozen=True, slots=True)
class Cause:
    """A row of the table: how often, how long a person took to restart, and what it takes to go on."""

    name: str
    count: int
    restart_min: float
    needs: str


CAUSES = (
    Cause("NVLink error", 54, 95.6, REPLACED),
    Cause("CUDA error", 21, 78.3, REPLACED),
    Cause("node failure", 16, 102.8, REPLACED),
    Cause("ECC error", 12, 2.8, REPLACED),
    Cause("network error", 12, 592.1, TRANSIENT),
    Cause("connection error", 147, 0.8, TRANSIENT),
    Cause("object storage error", 10, 6.2, TRANSIENT),
    Cause("NCCL time-out", 6, 66.7, TRANSIENT),
    Cause("NCCL remote error", 3, 0.3, TRANSIENT),
    Cause("data loader killed", 6, 115.1, TRANSIENT),
    Cause("out of memory", 14, 122.7, HUMAN),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What is done about failures, in seconds. ``interval_s`` None is Young's and Daly's."""

    name: str
    blocking_s: float
    interval_s: float | None
    restart_s: float | None = None
    """From a failure to training again without a person; None waits for one."""
    pause_s: float | None = None
    """For survivors that go on in place; None restarts everybody."""

    def interval(self, failures: int) -> float:
        mtbf = HOURS * 3600 / max(failures, 1)
        return self.interval_s or math.sqrt(2 * self.blocking_s * mtbf)


BY_HAND = Recovery(name="by hand", blocking_s=60.0, interval_s=1800.0)
ITSELF = replace(BY_HAND, name="restarted by itself", restart_s=420.0)
ASYNCHRONOUS = replace(ITSELF, name="asynchronous checkpoints", blocking_s=2.0, interval_s=None)
SURVIVORS = replace(ASYNCHRONOUS, name="survivors go on", pause_s=30.0)
ASSUMED = (
    "Assumed at this size: a synchronous checkpoint holds training up for 60 s, an asynchronous one for 2 s; a restart "
    "of all workers takes 7 min (finding the bad node in two rounds 2 min, start and reading 5 min), a pause of "
    "survivors 30 s; a node is away for a day; what a person has to mend takes as long as in the table."
)
REPAIR_S = 86_400.0
STEP_S = 20.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Shares of the time."""

    productive: float
    saving: float
    lost: float
    waiting: float
    narrower: float


def drawn(seed: int) -> list[tuple[Cause, float]]:
    """The failures of one half year, each with where it lies between two checkpoints (0 to 1)."""
    draw = np.random.default_rng(seed)
    exposed = DEVICES * HOURS / STUDIED_DEVICE_HOURS
    return [(cause, float(draw.random())) for cause in CAUSES for _ in range(draw.poisson(cause.count * exposed))]


def lived(failures: list[tuple[Cause, float]], recovery: Recovery) -> Outcome:
    """How a half year is spent. O(failures)."""
    interval = recovery.interval(len(failures))
    lost = waiting = narrower = 0.0
    for cause, where in failures:
        survives = recovery.pause_s is not None and cause.needs != HUMAN
        lost += STEP_S if survives else where * interval
        waiting += _waited(cause, recovery)
        narrower += REPAIR_S * NODE / DEVICES if survives and cause.needs == REPLACED else 0.0
    total = HOURS * 3600
    saving = (total - lost - waiting) * recovery.blocking_s / (interval + recovery.blocking_s)
    parts = [part / total for part in (saving, lost, waiting, narrower)]
    return Outcome(1.0 - sum(parts), *parts)


def _waited(cause: Cause, recovery: Recovery) -> float:
    by_hand = cause.restart_min * 60
    if recovery.restart_s is None or cause.needs == HUMAN:
        return by_hand
    return recovery.restart_s if recovery.pause_s is None else recovery.pause_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = range(parser.parse_args().seeds)
    table = Table(
        "recovery", "productive", "worst seed", "saving", "done twice", "standing still", "fewer devices", "saves every"
    )
    for recovery in (BY_HAND, ITSELF, ASYNCHRONOUS, SURVIVORS):
        years = [drawn(seed) for seed in seeds]
        told = [lived(year, recovery) for year in years]
        shares = [np.mean([getattr(each, name) for each in told]) for name in Outcome.__slots__]
        every = np.mean([recovery.interval(len(year)) for year in years]) / 60
        worst = min(each.productive for each in told)
        table.add_row(
            recovery.name, _percent(shares[0]), _percent(worst), *map(_percent, shares[1:]), f"{every:.1f} min"
        )  # fmt: skip
    failures = np.mean([len(drawn(seed)) for seed in seeds])
    table.title = f"{DEVICES:,} devices, {HOURS / 24:.0f} days, {failures:.0f} failures on average"
    console = Console(width=130)
    console.print(table)
    console.print(ASSUMED)


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


if __name__ == "__main__":
    main()
