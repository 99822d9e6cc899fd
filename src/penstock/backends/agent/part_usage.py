"""What a run uses whose workers live elsewhere: what their hosts tell, added up, with totals that survive parts."""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from penstock.backends.agent.usage import totals
from penstock.core import Usage
from penstock.tools import write_atomically


class PartUsage:
    """The sum of all parts. Totals go on from those in ``record``, which an earlier agent of the run left."""

    def __init__(self, record: Path) -> None:
        self._record = record
        self._ended = totals(record)

    def add_ended(self, usage: Usage) -> None:
        """A part is gone; what it has used stays."""
        self._ended = replace(added([self._ended, usage]), cpu_percent=0.0, memory_bytes=0)

    def sum(self, parts: Iterable[Usage]) -> Usage:
        """What is used now and was used so far, written down as well; a full disk loses totals, not the run."""
        used = added([self._ended, *parts])
        with suppress(OSError):
            write_atomically(self._record, json.dumps([used.cpu_s, used.energy_j, used.estimated]))
        return used


def added(usages: Iterable[Usage]) -> Usage:
    """Several usages as one; figures that nobody has stay unknown."""
    every = list(usages)
    devices = tuple(device for one in every for device in one.devices)
    busy = [device.percent for device in devices if device.percent is not None]
    return Usage(
        cpu_percent=sum(one.cpu_percent for one in every),
        memory_bytes=sum(one.memory_bytes for one in every),
        device_percent=sum(busy) / len(busy) if busy else None,
        device_memory_bytes=_sum(one.device_memory_bytes for one in every),
        power_w=_sum(one.power_w for one in every),
        cpu_s=sum(one.cpu_s for one in every),
        energy_j=_sum(one.energy_j for one in every),
        estimated=any(one.estimated for one in every),
        devices=devices,
    )


def _sum(values: Iterable[float | int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None  # type: ignore[return-value]
