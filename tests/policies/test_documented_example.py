"""The policy in docs/add-a-policy.md is not only text: it runs and passes the conformance suite's core."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core import Cluster, Curve, JobFinished, JobSubmitted, Resize, Tenant, TenantChanged
from penstock.policies import AnyPolicy
from penstock.scheduler import Scheduler
from penstock.scheduler.testing import CheckedWorld, clusters, scripts
from tests.scheduler.build import job

GUIDE = Path(__file__).parents[2] / "docs" / "add-a-policy.md"


def _example(name: str) -> AnyPolicy:
    for code in re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL):
        names: dict[str, object] = {}
        exec(code, names)
        if isinstance(policy := names.get(name), type):
            return policy()
    raise AssertionError(f"the guide has lost its example {name}")


@pytest.mark.parametrize("name", ["SmallestFirst", "FastestFree", "LeastLaxity"])
@settings(max_examples=25, deadline=None)
@given(data=st.data(), cluster=clusters(), slot=st.sampled_from([0.0, 60.0]))
def test_the_documented_policies_conform(name: str, data: st.DataObject, cluster: Cluster, slot: float) -> None:
    script, times = data.draw(scripts(misfortunes=True))
    CheckedWorld(Scheduler(cluster, _example(name), slot=slot)).run(script, times)


def test_the_wide_one_uses_every_kind_and_respects_limits() -> None:
    machine = Scheduler(Cluster.parse("1x4xA+1x2xB"), _example("FastestFree"))
    curve = Curve(
        (*Curve.from_table({1: 1.0, 2: 2.0, 4: 4.0}, "A").scalings, *Curve.from_table({1: 1.5}, "B").scalings)
    )
    jobs = [job(name, 1000.0, curve=curve, tenant="t" if name == "c" else "s") for name in "abc"]
    machine.handle(TenantChanged(0.0, Tenant(name="t", limit=0)), *(JobSubmitted(0.0, each) for each in jobs))
    assert (machine.devices_of("a"), machine.devices_of("b"), machine.devices_of("c")) == ((0, 1, 2, 3), (4,), ())
    told = machine.handle(JobFinished(10.0, "a"), TenantChanged(10.0, Tenant(name="t", limit=1)))
    assert [each.grant.kind for each in told if isinstance(each, Resize)] == ["A"], "b moves to where it is faster"
    assert machine.devices_of("b") == (0, 1, 2, 3)
    assert machine.devices_of("c") == (4,)
    assert "moved from B to A: 4 devices on 1 node" in machine.why("b").entries[-1].text
    assert machine.why("c").now == "holds 1 of 2 B devices"
    machine.validate()
