"""The columns that every view of jobs has, each gathered when a policy first reads it.

A decision is taken at every event and no policy reads all columns: gathering them all, those included that change with
time and have to be computed, would cost as much as a simple policy itself.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from penstock.policies.columns import Bools, Floats, Ints


class ColumnSource(Protocol):
    """Gives columns by name; a name that is none raises :class:`KeyError`."""

    @property
    def ready(self) -> Mapping[str, Any]:
        """The columns that need not be gathered."""

    def __getitem__(self, name: str, /) -> Any: ...


class SomeRows:
    """Columns of which only the rows that are ``left`` are shown; ``whole`` gives them by name."""

    ready: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, whole: Callable[[str], Any], left: Ints) -> None:
        self._whole = whole
        self._left = left

    def __getitem__(self, name: str, /) -> Any:
        return self._whole(name)[self._left]


class ReplacedColumns:
    """Columns of which some are ``replaced`` by others, and of the rest only the rows that are ``left``."""

    def __init__(self, columns: ColumnSource, replaced: Mapping[str, Any], left: Ints | None = None) -> None:
        self._columns = columns
        self._replaced = replaced
        self._left = left

    @property
    def ready(self) -> Mapping[str, Any]:
        return {**self._columns.ready, **self._replaced} if self._left is None else self._replaced

    def __getitem__(self, name: str, /) -> Any:
        if name in self._replaced:
            return self._replaced[name]
        column = self._columns[name]
        return column if self._left is None else column[self._left]


class GatheredColumns:
    """Attributes that are columns; who derives from it says where they come from."""

    def gather(self, name: str) -> Any:
        raise NotImplementedError


class _Gathered:
    """An attribute that is gathered when it is first read and kept from then on."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, columns: GatheredColumns, owner: type | None = None) -> Any:
        gathered = columns.__dict__[self._name] = columns.gather(self._name)
        return gathered


def gathered() -> Any:
    """Declares a column."""
    return _Gathered()


class JobColumns(GatheredColumns):
    """One entry per job that is not done yet. Columns are read-only; ``sequence`` is the order of arrival."""

    standing: Ints = gathered()
    """What each job has been told, as a :class:`Standing`."""
    sequence: Ints = gathered()
    submitted: Floats = gathered()
    deadline: Floats = gathered()
    """Absolute; infinite without one."""
    hard: Bools = gathered()
    step_at: Floats = gathered()
    """(rows, VALUE_STEPS) deadlines of falling value, absolute; the first is ``deadline``, infinite where is none."""
    step_value: Floats = gathered()
    """(rows, VALUE_STEPS) share of its value that a job has when it is done by then; 0 where there is no deadline."""
    priority: Ints = gathered()
    """Higher goes first among jobs that nobody promised anything; mostly all the same."""
    resumable: Bools = gathered()
    """Goes on from where it was when its devices change; the others begin again."""
    remaining: Floats = gathered()
    """Iterations left; the expected number where a metric decides."""
    allowance: Floats = gathered()
    """Iterations that a promise counts on besides, because a metric decides how many are left; mostly zero."""
    whole: Floats = gathered()
    """Iterations from the beginning to the end."""
    width: Ints = gathered()
    """Devices held now."""
    useful: Ints = gathered()
    """The most devices it could use, of the kind it is bound to."""
    executed: Floats = gathered()
    """Seconds it has held devices, over all stints."""
    attained: Floats = gathered()
    """Device-seconds it has held."""
    deserved: Floats = gathered()
    """Device-seconds that its part of its tenant's share came to since it asked, as far as it could use them."""
    stint_since: Floats = gathered()
    """When it last got devices after having none (or last lost them, if it has none)."""
    waited_before: Floats = gathered()
    """How long it waited before its present stint."""
    waited_s: Floats = gathered()
    """Seconds that it waited before all its stints, the present wait not counted."""
    suspensions: Ints = gathered()
    """How often a decision took all its devices away."""
    start_s: Floats = gathered()
    """Likely seconds without progress if it gets devices after having none, what its end takes included."""
    resize_s: Floats = gathered()
    """Likely seconds without progress if it gets other devices than it has."""
    still_s: Floats = gathered()
    """Likely seconds without progress on the devices it has: what is left of a start or a change, and its end."""
    pause_s: Floats = gathered()
    """The part of ``still_s`` that comes now, before any progress."""
    end_s: Floats = gathered()
    """The part of ``start_s`` that comes after the last step."""
    reserve_s: Floats = gathered()
    """Seconds by which start and end together may take longer than likely."""
    plan_at: Floats = gathered()
    """(rows, PLAN_STEPS) the plan the policy last laid out: from these times on ..."""
    plan_width: Ints = gathered()
    """(rows, PLAN_STEPS) ... these widths; (inf, 0) where there is none."""
    plan_kind: Ints = gathered()
    """The kind of device that plan is for, as a position among the kinds of the cluster."""

    def value_when_done(self, at: Floats) -> Floats:
        """The share of its value that each row has if it is done at these times; 0 for rows without a deadline."""
        return np.asarray(np.where(self.step_at >= at[:, None], self.step_value, 0.0).max(axis=1, initial=0.0))
