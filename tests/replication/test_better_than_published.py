"""The default policy keeps more deadlines than anything published, and every promise, on the public traces."""

from pathlib import Path

import pytest

from penstock.core import Cluster
from penstock.simulate import Setting, Workload, run_policy
from penstock.simulate.traces import Profiles, read_trace
from tests.tools import needs

DATA = Path(__file__).parents[3] / "shared" / "data" / "elasticflow"
CASES = {
    "195job": ("16x8", 240.0, "throughputs_A100", 0.897),
    "elasticVpollux_e": ("16x4", 60.0, "throughputs_T4", 0.826),
    "cluster10": ("32x8", 60.0, "throughputs_A100", 0.988),
    "philly_103959": ("32x8", 60.0, "throughputs_A100", 0.928),
}


@pytest.mark.skipif(not DATA.is_dir(), reason=needs.reason("public data are missing", needs.data_advice("elasticflow")))
@pytest.mark.parametrize("name", sorted(CASES))
def test_deadline_beats_the_best_known_share_and_breaks_no_promise(name: str) -> None:
    cluster, slot, tables, to_beat = CASES[name]
    trace = read_trace(DATA / "traces" / f"{name}.csv.gz")
    workload = Workload(trace=trace, profiles=Profiles.load(DATA / tables), caps=True)
    setting = Setting(cluster=Cluster.parse(cluster), slot=slot, overhead="artifact")
    summary = run_policy("deadline", workload, setting).summary
    assert summary.ratio > to_beat
    assert summary.broken == 0
