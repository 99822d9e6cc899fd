"""How jobs could run on one kind of device."""

from collections.abc import Mapping
from typing import Any

from penstock.policies.columns import Floats, Ints
from penstock.policies.job_columns import ColumnSource, GatheredColumns, gathered


class KindOptions(GatheredColumns):
    """How the rows of a view could run: (rows, L) columns, padded with the last option.

    A job that cannot run on this kind has depth 0, and zeros.
    """

    levels: Ints = gathered()
    """Widths worth using, ascending."""
    rates: Floats = gathered()
    """Iterations per second at those widths."""
    doubts: Floats = gathered()
    """The share by which each rate may turn out lower."""
    watts: Floats = gathered()
    """What all devices together draw; zero where nothing is known."""
    depth: Ints = gathered()
    """How many of the options are real."""
    requested: Ints = gathered()
    """Width a rigid policy gives, capped to the cluster."""
    requested_rate: Floats = gathered()

    def __init__(self, columns: ColumnSource) -> None:
        self._columns = columns
        self.__dict__.update(columns.ready)

    @property
    def ready(self) -> Mapping[str, Any]:
        return self._columns.ready

    def gather(self, name: str) -> Any:
        return self._columns[name]


OPTION_COLUMNS = tuple(KindOptions.__annotations__)
