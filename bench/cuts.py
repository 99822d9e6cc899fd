"""Cuts of public traces that are small enough for every policy: Philly as it is, Helios' Venus as it can be drawn.

Of Venus only series and distributions are public here: jobs come as its arrivals say (10-minute bins), ask for GPUs and
run as the distributions of Helios say, and belong to its virtual clusters in proportion to their nodes.
"""

import csv
import gzip
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.data import DATA
from penstock.core import Cluster, Tenant
from penstock.simulate import Profiles, Trace, TraceJob, Workload, generate, interval_for_load, read_trace

TRACES = DATA.parent / "traces"
PHILLY = TRACES / "philly" / "philly_2017-10-09_14d.csv.gz"
PHILLY_TENANTS = DATA.parent / "astraea" / "philly_vc_share.csv"
ALIBABA = TRACES / "alibaba-gpu-v2023" / "openb_pod_list_default.csv.gz"
VENUS_ARRIVALS = TRACES / "helios" / "venus_10min_arrivals.csv.gz"
VENUS_TENANTS = TRACES / "helios" / "venus_vc_gpus.csv"
HELIOS_SIZES = TRACES / "acme" / "cdf_gpu_num.csv"
HELIOS_DURATIONS = TRACES / "acme" / "cdf_gpu_job_duration.csv"
NODE = 8
GENERATED_NODES = 16
WIDEST = 64
"""Wider jobs are cut down to this: the speeds of models are known up to there."""
BIN_S = 600.0


class Cut(NamedTuple):
    """Some jobs, the shares of their tenants, and a cluster of which they ask for too much while they come."""

    name: str
    jobs: tuple[TraceJob, ...]
    shares: Mapping[str, float]
    cluster: Cluster

    @classmethod
    def of(cls, name: str, jobs: Sequence[TraceJob], shares: Mapping[str, float], load: float) -> "Cut":
        """What jobs ask for after the last has come does not count: a cluster for the longest job would be idle."""
        last = jobs[-1].submitted_at
        wanted = sum(job.devices * min(job.duration_s or 0.0, last - job.submitted_at) for job in jobs)
        widest = max(job.devices for job in jobs)
        nodes = max(math.ceil(wanted / (last - jobs[0].submitted_at) / NODE / load), math.ceil(widest / NODE))
        return cls(name, tuple(jobs), shares, Cluster.parse(f"{nodes}x{NODE}"))

    @property
    def tenants(self) -> list[Tenant]:
        """Those who have a job in the cut."""
        return [
            Tenant(name=name, share=self.shares.get(name, 1.0)) for name in sorted({job.tenant for job in self.jobs})
        ]

    def workload(self, deadlines: tuple[float, float] | None = None) -> Workload:
        trace = Trace(name=self.name, format="cut", jobs=self.jobs)
        return Workload(trace=trace, profiles=Profiles.builtin(), deadlines=deadlines)

    def __str__(self) -> str:
        devices = self.cluster.device_count
        return f"{self.name}: {len(self.jobs)} jobs of {len(self.tenants)} tenants on {devices} devices"


def philly(count: int, load: float, day: int = 3) -> Cut | None:
    """Consecutive jobs from a day of the fortnight on (0 is the first); ``None`` where the trace is not at hand."""
    if not _all_there(PHILLY, PHILLY_TENANTS):
        return None
    jobs = read_trace(PHILLY).jobs
    first = next(i for i, job in enumerate(jobs) if job.submitted_at >= day * 86400.0)
    return Cut.of("Philly", jobs[first : first + count], _shares(PHILLY_TENANTS), load)


def alibaba(first: int, count: int, load: float) -> Cut | None:
    """Consecutive jobs from the ``first`` on; ``None`` where the trace is not at hand."""
    if not _all_there(ALIBABA):
        return None
    jobs = [job for job in read_trace(ALIBABA).jobs if job.devices][first : first + count]
    return Cut.of(f"Alibaba from {first}", jobs, {}, load)


def venus(count: int, load: float, seed: int = 1, source: str = "Helios") -> Cut | None:
    """Jobs drawn as Venus saw them from the first Monday of May 2020 on; ``None`` where the series are not at hand.

    Sizes and durations are those of Helios, or of another ``source`` of Acme's distributions.
    """
    if not _all_there(VENUS_ARRIVALS, VENUS_TENANTS, HELIOS_SIZES, HELIOS_DURATIONS):
        return None
    rng = np.random.default_rng(seed)
    starts = _arrivals(count, rng)
    sizes = _inverse(HELIOS_SIZES, (source, "jobs"), rng.random(count), log=False)
    durations = _inverse(HELIOS_DURATIONS, (source,), rng.random(count), log=True)
    nodes = _shares(VENUS_TENANTS)
    part = np.array(list(nodes.values())) / sum(nodes.values())
    tenants = rng.choice(list(nodes), size=count, p=part)
    jobs = [
        TraceJob(
            id=f"venus-{i}", submitted_at=float(starts[i]), devices=min(2 ** int(math.log2(sizes[i])), WIDEST),
            duration_s=float(max(durations[i], 1.0)), tenant=str(tenants[i]),
        )
        for i in range(count)
    ]  # fmt: skip
    name = "Venus" if source == "Helios" else f"Venus' arrivals, jobs of {source}"
    return Cut.of(name, jobs, nodes, load)


def generated(count: int, load: float, seed: int = 3, tenants: int = 10) -> Cut:
    """Jobs of the generator, of tenants that submit equally often."""
    profiles, devices = Profiles.builtin(), GENERATED_NODES * NODE
    jobs = generate(
        count, seed=seed, profiles=profiles, mean_interval_s=interval_for_load(load, devices), best_effort=1.0,
        tenants=tenants,
    )  # fmt: skip
    return Cut("generated", tuple(jobs), {}, Cluster.parse(f"{GENERATED_NODES}x{NODE}"))


def _all_there(*files: Path) -> bool:
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        print(f"skipped: {', '.join(missing)} not under shared/{DATA.parent.name} beside the repository")
    return not missing


def _arrivals(count: int, rng: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    times: list[float] = []
    with gzip.open(VENUS_ARRIVALS, "rt", newline="") as file:
        begun = None
        for number, row in enumerate(csv.DictReader(file)):
            if begun is None and not row["time"].startswith("2020-05-04"):
                continue
            begun = number if begun is None else begun
            times += ((number - begun + rng.random(int(row["submit_gpu_job"]))) * BIN_S).tolist()
            if len(times) >= count:
                break
    return np.sort(np.array(times[:count]))


def _inverse(
    file: Path, start: tuple[str, ...], uniform: np.ndarray[tuple[int], np.dtype[np.float64]], *, log: bool
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Values whose distribution a file of (…, value, cumulative percent) gives: steps, or between the points."""
    with file.open(newline="") as lines:
        points = [
            (float(row[-2]), float(row[-1]) / 100) for row in csv.reader(lines) if tuple(row[: len(start)]) == start
        ]
    values, shares = np.array([value for value, _ in points]), np.array([share for _, share in points])
    if log:
        return np.asarray(2.0 ** np.interp(uniform, shares, np.log2(values)))
    return np.asarray(values[np.minimum(np.searchsorted(shares, uniform), len(values) - 1)])


def _shares(file: Path) -> dict[str, float]:
    with file.open(newline="") as lines:
        return {row[0]: float(row[1]) for row in list(csv.reader(lines))[1:]}
