"""The platform's state as versioned plain data, and back.

Snapshots and archived jobs are kept in this form. It says what is the case and not how it is kept in memory, so later
versions can read it; what follows from the rest (who has devices, which jobs are of one fingerprint) is derived again.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.control.state.entries import Absence, Configured
from penstock.control.state.platform_state import PlatformState
from penstock.control.state.records import JobRecord
from penstock.control.state.rules import scheduler_from_data
from penstock.core import CodecError, DeviceSlot, NodeHealth, build, plain
from penstock.tools import settled

VERSION = 2
"""Of the data. Version 1 was a pickle, which only the code that wrote it could read."""


@dataclass(frozen=True, slots=True)
class StillState:
    """A state that does not change any more while it is made into data: taking it is the short part of the work."""

    _fixed: Mapping[str, Any]
    _records: Sequence[JobRecord]

    @classmethod
    def of(cls, state: PlatformState, *, without: Collection[str] = ()) -> "StillState":
        """The state as it is, ``without`` some jobs that leave it now."""
        fixed = {
            "version": VERSION,
            "at": plain(state.at),
            "submitted": state.submitted,
            "settings": plain(state.settings),
            "absent": {name: why.value for name, why in state.absent.items()},
            "drained_because": dict(state.drained_because),
            "lost_devices": _places(state.lost_devices),
            "health": {node: plain(health) for node, health in state.health.items()},
            "scheduler": None if state.settings is None else state.scheduler.still_data(),
            "engaged": list(state.engaged),
        }
        return cls(fixed, [record.copy() for record in state.jobs.values() if record.id not in without])

    def to_data(self) -> dict[str, Any]:
        """Once. Iterators stand for the long lists: no job's data is there longer than somebody looks at it."""
        return {**self._fixed, "jobs": map(record_to_data, self._records)}


def state_to_data(state: PlatformState) -> dict[str, Any]:
    """Everything that the state is made of. O(jobs that are not over)."""
    return settled(StillState.of(state).to_data())


def state_from_data(data: Mapping[str, Any]) -> PlatformState:
    """The state that :func:`state_to_data` was given; raises :class:`CodecError` where it is not one."""
    if data.get("version") != VERSION:
        raise CodecError(f"state of version {data.get('version')!r}; this version of Penstock reads {VERSION}")
    try:
        return _build_state(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CodecError(f"not the state of a platform: {error!r}") from error


def _build_state(data: Mapping[str, Any]) -> PlatformState:
    state = PlatformState()
    state.at = float(data["at"])
    state.submitted = data["submitted"]
    state.absent = {name: Absence(why) for name, why in data["absent"].items()}
    state.drained_because = dict(data.get("drained_because", {}))
    state.health = {node: build(NodeHealth, health) for node, health in data.get("health", {}).items()}
    state.lost_devices = {build(DeviceSlot, place) for place in data.get("lost_devices", ())}
    if data["settings"] is not None:
        settings = build(Configured, data["settings"])
        state.set_up(settings, scheduler_from_data(data["scheduler"], settings))
    for each in data["jobs"]:
        state.adopt(record_from_data(each))
    state.engaged = {job_id: state.jobs[job_id] for job_id in data["engaged"]}
    return state


def record_to_data(record: JobRecord) -> dict[str, Any]:
    footprints = {run_id: _places(places) for run_id, places in record.footprints.items()}
    kept = {name: plain(getattr(record, name)) for name in record.__slots__ if name != "footprints"}
    return kept | {"footprints": footprints}


def record_from_data(data: Mapping[str, Any]) -> JobRecord:
    record: JobRecord = build(JobRecord, data)
    record.footprints = {
        run_id: frozenset(build(DeviceSlot, place) for place in places) for run_id, places in data["footprints"].items()
    }
    return record


def _places(places: Iterable[DeviceSlot]) -> list[Any]:
    return [plain(place) for place in sorted(places, key=lambda place: (place.node, place.slot))]
