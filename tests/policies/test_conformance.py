"""Every policy we ship, and the two in the guide, pass the conformance suite that people inherit for their own."""

import pytest

from penstock.policies import POLICIES, AnyPolicy, policy_named
from penstock.scheduler.testing import PolicyConformance
from tests.tools.examples import examples


@pytest.fixture(params=sorted(POLICIES))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class TestOurs(PolicyConformance):
    examples = examples(20)

    @pytest.fixture(autouse=True)
    def _choose(self, name: str) -> None:
        self._name = name

    def make(self) -> AnyPolicy:
        return policy_named(self._name)


def test_ours_state_what_a_decision_costs() -> None:
    for name, policy in POLICIES.items():
        assert "O(" in (policy.__doc__ or ""), f"{name}: state the cost of a decision in the docstring"


def test_policies_are_listed_by_their_names() -> None:
    for name, policy in POLICIES.items():
        assert policy.name == name
