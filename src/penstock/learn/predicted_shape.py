"""A predicted curve as the shape that a few measured points are fitted to."""

from penstock.core import Curve, Scaling


class PredictedShape:
    """A predicted scaling as a function of the count, for measured points to bend."""

    def __init__(self, scaling: Scaling) -> None:
        self._curve = Curve((("", scaling),))
        self._first = scaling.counts[0]

    def rate(self, count: int) -> float:
        """Below the fewest devices it fits on, as on those."""
        return self._curve.rate(max(count, self._first), "")
