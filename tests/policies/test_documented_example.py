"""The policy in docs/add-a-policy.md is not only text: it runs and passes the conformance suite's core."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core import Cluster
from penstock.policies import Policy
from penstock.scheduler import Scheduler
from tests.policies.strategies import clusters, scripts
from tests.policies.world import World

GUIDE = Path(__file__).parents[2] / "docs" / "add-a-policy.md"


@pytest.fixture(scope="module")
def example() -> Policy:
    code = re.search(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert code is not None, "the guide has lost its example"
    names: dict[str, object] = {}
    exec(code[1], names)
    policy = names["SmallestFirst"]
    assert isinstance(policy, type)
    return policy()


@settings(max_examples=25, deadline=None)
@given(data=st.data(), cluster=clusters(), slot=st.sampled_from([0.0, 60.0]))
def test_the_documented_policy_conforms(example: Policy, data: st.DataObject, cluster: Cluster, slot: float) -> None:
    script, times = data.draw(scripts(misfortunes=True))
    World(Scheduler(cluster, example, slot=slot)).run(script, times)
