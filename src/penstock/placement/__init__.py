"""On which devices does a job of a given width run?

Strategies share one interface, :class:`Placement`, and one record of who holds what, :class:`Occupancy`. To add one,
write a class with ``name``, ``summary`` and ``place`` in a file of its own and name it ``module:Class``.
"""

from typing import cast

from penstock.core import PluginError, UnknownNameError, is_plugin, load_plugin
from penstock.placement.base import Ask, Placement, place_one_by_one
from penstock.placement.best_fit import BestFit
from penstock.placement.buddy import Buddy
from penstock.placement.first_fit import FirstFit
from penstock.placement.occupancy import Masks, Occupancy, slots_of
from penstock.placement.preferring import seat_preferred
from penstock.placement.seating import ConfinedAsk, Crowd, Seating, Shares, take_seats
from penstock.placement.spread import Spread

_STRATEGIES: dict[str, Placement] = {strategy.name: strategy for strategy in (Buddy(), BestFit(), FirstFit(), Spread())}

PLACEMENTS: tuple[str, ...] = tuple(_STRATEGIES)
"""The names of all strategies, the default first."""


def placement_named(name: str) -> Placement:
    """The strategy of that name, or yours as ``module:Class``; strategies keep no state, so everyone may share one."""
    if is_plugin(name):
        return _your_own(name)
    try:
        return _STRATEGIES[name]
    except KeyError:
        raise UnknownNameError.of("placement", name, PLACEMENTS) from None


def _your_own(name: str) -> Placement:
    strategy = load_plugin("placement", name)()
    if not callable(getattr(strategy, "place", None)):
        raise PluginError(f"the placement {name!r} has no method place", "a class with name, summary and place")
    return cast("Placement", strategy)


__all__ = [
    "PLACEMENTS",
    "Ask",
    "BestFit",
    "Buddy",
    "ConfinedAsk",
    "Crowd",
    "FirstFit",
    "Masks",
    "Occupancy",
    "Placement",
    "Seating",
    "Shares",
    "Spread",
    "place_one_by_one",
    "placement_named",
    "seat_preferred",
    "slots_of",
    "take_seats",
]
