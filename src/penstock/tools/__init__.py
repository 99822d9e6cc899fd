"""Tools without words of their own: what several rooms need and no room is about."""

from penstock.tools.doors import lazy_door
from penstock.tools.jit import compiled

__all__ = ["compiled", "lazy_door"]
