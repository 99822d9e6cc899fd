"""Every strategy we ship passes the conformance suite that people inherit for their own."""

import pytest

from penstock.core import UnknownNameError
from penstock.placement import PLACEMENTS, Placement, placement_named
from penstock.placement.testing import PlacementConformance


class TestOurs(PlacementConformance):
    @pytest.fixture(autouse=True)
    def _choose(self, strategy: Placement) -> None:
        self.strategy = strategy
        self.moves_others = strategy.name == "buddy"


def test_names_are_how_strategies_are_found(strategy: Placement) -> None:
    assert placement_named(strategy.name) is strategy
    assert strategy.summary
    assert PLACEMENTS[0] == "buddy"


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'best-fit'"):
        placement_named("bestfit")
