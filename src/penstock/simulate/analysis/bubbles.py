"""Devices that are held and not used, from samples of how busy each of them is.

*Whole* bubbles are times in which all devices of a job are idle at once (a notebook that is kept, a process that is
over), *part* bubbles those in which some of its devices are idle beside busy ones (it asked for too many). The two
kinds and their definitions are our own reading of what R&D clusters suffer from (Yang et al., ICCD 2022, of which only
the abstract was at hand). Samples are streamed: one state per device, O(1) for each sample.
"""

import csv
import gzip
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from penstock.core import InputError, TraceError

IDLE_PERCENT = 1.0
"""Below this a device does nothing."""
WINDOW_S = 300.0
"""A device is idle once it did nothing for so long: shorter pauses are part of working."""
LONGEST_GAP_S = 600.0
"""Two samples farther apart say nothing about the time between them."""
COLUMNS = ("time", "job", "device", "busy")


@dataclass(frozen=True, slots=True)
class Sample:
    """How busy a device of a job was at a time, in percent."""

    time: float
    job: str
    device: str
    busy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BubbleRow:
    """One job: device-seconds it held, those in which all of it was idle, and those beside busy devices of its own."""

    job: str
    held_s: float
    whole_s: float
    part_s: float

    @property
    def idle_s(self) -> float:
        return self.whole_s + self.part_s


@dataclass(slots=True)
class _Device:
    seen_at: float
    idle_since: float | None


@dataclass(slots=True)
class _Job:
    held_s: float = 0.0
    whole_s: float = 0.0
    part_s: float = 0.0
    devices: dict[str, _Device] = field(default_factory=dict)


def bubbles_of(samples: Iterable[Sample]) -> dict[str, BubbleRow]:
    """By job. Samples come in order of time; those of one device belong to one job at a time."""
    jobs: dict[str, _Job] = {}
    for sample in samples:
        _observe(jobs.setdefault(sample.job, _Job()), sample)
    return {
        name: BubbleRow(job=name, held_s=job.held_s, whole_s=job.whole_s, part_s=job.part_s)
        for name, job in jobs.items()
    }


def _observe(job: _Job, sample: Sample) -> None:
    idle_now = sample.busy < IDLE_PERCENT
    device = job.devices.get(sample.device)
    if device is None or sample.time - device.seen_at > LONGEST_GAP_S:
        job.devices[sample.device] = _Device(sample.time, sample.time if idle_now else None)
        return
    passed = sample.time - device.seen_at
    job.held_s += passed
    if device.idle_since is not None and idle_now:
        before = device.seen_at - device.idle_since
        counted = passed if before >= WINDOW_S else passed + before if before + passed >= WINDOW_S else 0.0
        if counted and _others_idle(job, sample):
            job.whole_s += counted
        else:
            job.part_s += counted
    device.seen_at = sample.time
    device.idle_since = (device.idle_since if device.idle_since is not None else sample.time) if idle_now else None


def _others_idle(job: _Job, sample: Sample) -> bool:
    return all(
        device.idle_since is not None or sample.time - device.seen_at > LONGEST_GAP_S
        for name, device in job.devices.items()
        if name != sample.device
    )


def read_samples(path: Path) -> Iterator[Sample]:
    """Samples of a CSV file, gzip or not, with the columns time (s), job, device and busy (%)."""
    try:
        with path.open("rb") as raw:
            packed = raw.peek(2)[:2] == b"\x1f\x8b"
            with io.TextIOWrapper(gzip.GzipFile(fileobj=raw) if packed else raw, encoding="utf-8") as text:
                yield from _samples(path, csv.reader(text))
    except (OSError, UnicodeDecodeError, EOFError) as problem:
        raise TraceError(f"cannot read {path}: {problem}", "a CSV file of samples", _FORM) from None


_FORM = f"Columns: {', '.join(COLUMNS)}; for example 60,job-17,gpu-node-1/3,87.5"


def _samples(path: Path, rows: Iterator[list[str]]) -> Iterator[Sample]:
    header = [name.strip() for name in next(rows, [])]
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise InputError(f"{path} has no column {', '.join(missing)}", ", ".join(COLUMNS), _FORM)
    at = [header.index(name) for name in COLUMNS]
    latest = float("-inf")
    for number, row in enumerate(rows, 2):
        sample = _sample(path, number, row, at)
        if sample.time < latest:
            raise InputError(f"{path}, line {number}: {sample.time:g} s after {latest:g} s", "samples in order of time")
        latest = sample.time
        yield sample


def _sample(path: Path, number: int, row: list[str], at: list[int]) -> Sample:
    try:
        time, job, device, busy = (row[column].strip() for column in at)
        return Sample(float(time), job, device, float(busy))
    except (IndexError, ValueError):
        raise InputError(f"{path}, line {number}: {','.join(row)[:80]!r}", "a sample", _FORM) from None
