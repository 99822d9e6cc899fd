"""On which devices does a job of a given width run?

Strategies share one interface, :class:`Placement`, and one record of who holds what, :class:`Occupancy`. To add one,
write a class with ``name``, ``summary`` and ``place`` in a file of its own, and list it here.
"""

from penstock.core import UnknownNameError
from penstock.placement.base import Ask, Placement
from penstock.placement.best_fit import BestFit
from penstock.placement.buddy import Buddy
from penstock.placement.first_fit import FirstFit
from penstock.placement.occupancy import Occupancy
from penstock.placement.spread import Spread

_STRATEGIES: dict[str, Placement] = {strategy.name: strategy for strategy in (Buddy(), BestFit(), FirstFit(), Spread())}

PLACEMENTS: tuple[str, ...] = tuple(_STRATEGIES)
"""The names of all strategies, the default first."""


def placement_named(name: str) -> Placement:
    """The strategy of that name; strategies keep no state, so everyone may share it."""
    try:
        return _STRATEGIES[name]
    except KeyError:
        raise UnknownNameError.of("placement", name, PLACEMENTS) from None


__all__ = [
    "PLACEMENTS",
    "Ask",
    "BestFit",
    "Buddy",
    "FirstFit",
    "Occupancy",
    "Placement",
    "Spread",
    "placement_named",
]
