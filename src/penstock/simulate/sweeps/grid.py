"""What a sweep consists of: one cell per policy, cluster, load, error of the curves and seed."""

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from penstock.core import Cluster, InputError, Tenant
from penstock.policies import PolicyReference
from penstock.simulate.catalogue import check_policies
from penstock.simulate.comparison import Setting, bound_of, run_policy
from penstock.simulate.failures import NodeFailures
from penstock.simulate.optimum import OPTIMUM
from penstock.simulate.overhead import OverheadModel
from penstock.simulate.placement_rates import AS_CURVES, PlacementRates
from penstock.simulate.stop_knowledge import StopKnowledge
from penstock.simulate.sweeps.sources import WorkloadSource, workload_of
from penstock.simulate.traces import Profiles, TraceEvents
from penstock.simulate.watts import Watts


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run. ``load`` is ``None`` for the load that the jobs come with."""

    policy: str
    cluster: str
    load: float | None
    wrong_by: float
    seed: int

    @property
    def key(self) -> tuple[str, str, float | None, float, int, str]:
        """What tells it from others; a policy in a file of one's own is another one once the file changed."""
        return (self.policy, self.cluster, self.load, self.wrong_by, self.seed, code_of(self.policy))

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "code": code_of(self.policy)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """All cells, and what is the same in each of them."""

    policies: Sequence[str]
    source: WorkloadSource
    profiles: Profiles = field(default_factory=Profiles.builtin)
    clusters: Sequence[str] = ("16x8",)
    loads: Sequence[float | None] = (None,)
    wrong_by: Sequence[float] = (0.0,)
    seeds: Sequence[int] = (0,)
    slot: float = 60.0
    overhead: str = "none"
    placement: str | None = None
    deadlines: tuple[float, float] | None = None
    caps: bool = False
    elastic: bool = False
    doubts: float = 0.0
    report_every_s: float = 600.0
    failures: NodeFailures | None = None
    until: float = 0.0
    knowledge: StopKnowledge = StopKnowledge.FORECAST
    tenants: tuple[Tenant, ...] = ()
    events: TraceEvents | None = None
    rates: PlacementRates = AS_CURVES
    watts: Watts = ()
    optimum: bool = False
    """Also the most deadlines that could be met, beside the policies."""

    def check(self) -> None:
        """Refuse what cannot be run before anything is run."""
        for what, axis in (("policies", self.policies), ("clusters", self.clusters), ("loads", self.loads),
                           ("errors of the curves", self.wrong_by), ("seeds", self.seeds)):  # fmt: skip
            if not axis:
                raise InputError(f"a sweep over no {what}", "at least one")
            if len(set(axis)) != len(axis):
                raise InputError(f"a sweep over the {what} {', '.join(map(str, axis))}", "each once")
        check_policies(self.policies)
        for cluster, wrong_by in itertools.product(self.clusters, self.wrong_by):
            setting = self.setting(cluster, wrong_by)
            setting.uncertainty(0), setting.stopping(0)
        OverheadModel.parse(self.overhead)
        if self.events is not None and any(load not in (None, 1.0) for load in self.loads):
            raise InputError(
                "loads beside events at fixed times",
                "the load that the jobs come with",
                "Leave out --loads or --events",
            )
        if self.events is not None and self.optimum:
            raise InputError("the optimum of a world with events", "a world without --events", "Leave one of them out")
        for load in self.loads:
            if load is not None and not 0 < load < float("inf"):
                raise InputError(f"a load of {load:g}", "above 0", "Try 0.5,1,1.5")
        if len(self.seeds) > 1 and not self.draws:
            raise InputError(
                f"{len(self.seeds)} seeds for a trace of which nothing is drawn: all runs would be alike",
                "one seed, or something that is drawn",
                "Add --wrong-by 20%, --failures mtbf=5d or --deadlines, or use generate:jobs=500,load=1.5",
            )

    @property
    def draws(self) -> bool:
        """Whether anything depends on the seed."""
        drawn = (self.source.draws, any(self.wrong_by), self.failures is not None, self.deadlines is not None)
        return any(drawn) or self.until > 0

    def cells(self) -> Iterator[Cell]:
        """In order of cluster, load, error and seed, the policies beside each other."""
        for cluster, load, wrong_by, seed, policy in itertools.product(
            self.clusters, self.loads, self.wrong_by, self.seeds, (*self.policies, *([OPTIMUM] if self.optimum else []))
        ):
            yield Cell(policy=policy, cluster=cluster, load=load, wrong_by=wrong_by, seed=seed)

    def setting(self, cluster: str, wrong_by: float) -> Setting:
        return Setting(
            cluster=Cluster.parse(cluster), slot=self.slot, overhead=self.overhead, placement=self.placement,
            wrong_by=wrong_by, doubts=self.doubts, report_every_s=self.report_every_s, failures=self.failures,
            until=self.until, knowledge=self.knowledge, tenants=self.tenants, rates=self.rates, watts=self.watts,
        )  # fmt: skip

    def run(self, cell: Cell) -> dict[str, Any]:
        """The cell and what it came to, as one flat row."""
        setting = self.setting(cell.cluster, cell.wrong_by)
        workload = workload_of(
            self.source, setting.cluster, self.profiles, load=cell.load, seed=cell.seed, events=self.events,
            deadlines=self.deadlines, caps=self.caps, elastic=self.elastic,
        )  # fmt: skip
        if cell.policy == OPTIMUM:
            summary = bound_of(workload, setting).summary()
        else:
            summary = run_policy(cell.policy, workload, setting).summary
        causes = "; ".join(f"{cause}: {count}" for cause, count in summary.broken_causes.items())
        figures = {name: value for name, value in summary.as_dict().items() if name != "policy"}
        return {**cell.as_dict(), **figures, "broken_causes": causes}

    def identity(self) -> dict[str, Any]:
        """What must be the same for rows to stand in one file: everything that is not an axis."""
        return {
            "version": code_version(), **self.source.identity(), "profiles": self.profiles.name,
            "slot_s": self.slot, "overhead": self.overhead,
            "placement": self.placement, "draw_deadlines": list(self.deadlines) if self.deadlines else None,
            "caps": self.caps, "elastic": self.elastic, "doubts": self.doubts, "report_every_s": self.report_every_s,
            "failures": str(self.failures) if self.failures else None,
            "until": self.until, "knowledge": self.knowledge.value if self.until else None,
            "tenants": [asdict(tenant) for tenant in self.tenants],
            "events": [self.events.name, self.events.digest] if self.events else None,
            "overhead_file": OverheadModel.parse(self.overhead).digest, "rates": str(self.rates),
            "watts": [list(each) for each in self.watts],
        }  # fmt: skip


@lru_cache(maxsize=1)
def code_version() -> str:
    """A hash of everything in this package that a simulation runs: rows of another version are other results."""
    package = Path(__file__).parents[2]
    found = hashlib.blake2b(digest_size=6)
    for room in ("core", "placement", "policies", "scheduler", "simulate"):
        for file in sorted((package / room).rglob("*.py")):
            found.update(file.read_bytes())
    return found.hexdigest()


def code_of(policy: str) -> str:
    """A hash of the file that a policy lies in, if it is named by one."""
    path, _, _ = PolicyReference.parse(policy).name.rpartition(":")
    if not path.endswith(".py"):
        return ""
    return hashlib.blake2b(Path(path).expanduser().read_bytes(), digest_size=6).hexdigest()
