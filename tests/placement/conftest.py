"""Every strategy by name, for tests that hold for all of them."""

import pytest

from penstock.placement import PLACEMENTS, Placement, placement_named


@pytest.fixture(params=PLACEMENTS)
def strategy(request: pytest.FixtureRequest) -> Placement:
    return placement_named(request.param)
