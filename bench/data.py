"""The public traces and tables the benchmarks read, when they are there."""

import sys
from dataclasses import dataclass
from pathlib import Path

from penstock.core import Cluster
from penstock.simulate import Setting, Workload
from penstock.simulate.traces import Profiles, read_trace

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "elasticflow"


@dataclass(frozen=True)
class Case:
    """A public trace with the cluster, slot and tables it is used with."""

    trace: str
    cluster: str
    slot: float
    tables: str = "throughputs_A100"
    folder: str = "traces"

    @property
    def path(self) -> Path:
        suffix = ".csv.gz" if self.folder == "traces" else ".csv"
        return DATA / self.folder / f"{self.trace}{suffix}"

    def workload(self) -> Workload:
        return Workload(trace=read_trace(self.path), profiles=Profiles.load(DATA / self.tables), caps=True)

    def setting(self, overhead: str = "artifact") -> Setting:
        return Setting(cluster=Cluster.parse(self.cluster), slot=self.slot, overhead=overhead)


CASES = (
    Case("195job", "16x8", 240),
    Case("elasticVpollux_e", "16x4", 60, "throughputs_T4"),
    Case("cluster01", "64x8", 60),
    Case("cluster02", "64x8", 60),
    Case("cluster03", "64x8", 60),
    Case("cluster04", "128x8", 60),
    Case("cluster05", "64x8", 60),
    Case("cluster06", "64x8", 60),
    Case("cluster10", "32x8", 60),
    Case("philly_103959", "32x8", 60),
)
SYNTHETIC = tuple(
    Case("1000job_1500lam", cluster, 240, folder="traces_synthetic") for cluster in ("8x8", "16x8", "32x8")
)


def need_data() -> None:
    """End politely where the public traces are not at hand."""
    if not DATA.is_dir():
        print(f"skipped: the public traces are not at {DATA.parent.name}/{DATA.name} beside the repository")
        sys.exit(0)
