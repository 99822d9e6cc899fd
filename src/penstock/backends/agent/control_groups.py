"""The control group of a run: limits of memory and processors for all its processes together, and a list of them.

Where the kernel lets us, a run with limits gets a group below our own, in each hierarchy of version 1 that limits
anything, or in the one hierarchy of version 2. Its processes enter it before they run anything of the job's and so do
all they start, whatever session or environment these move to: the group finds and ends them all. Where nobody may make
groups, nothing limits the run, and whoever asks is told so.
"""

import errno
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.core import ResourceLimits

PERIOD_US = 100_000
_INSIST_S = 5.0
_NO_LIMIT = "-1"


class _Hierarchy(Protocol):
    """One directory of a group, in the words of its version."""

    @property
    def place(self) -> Path: ...

    def limit(self, limits: ResourceLimits) -> None: ...

    def memory_peak(self) -> int | None: ...

    def oom_kills(self) -> int: ...


@dataclass(frozen=True, slots=True)
class MemoryV1:
    """Memory in a hierarchy of version 1."""

    place: Path

    def limit(self, limits: ResourceLimits) -> None:
        with suppress(OSError):
            _write(self.place / "memory.memsw.limit_in_bytes", _NO_LIMIT)
        _write(self.place / "memory.limit_in_bytes", _or_none(limits.memory_bytes))
        with suppress(OSError):
            _write(self.place / "memory.memsw.limit_in_bytes", _or_none(limits.memory_bytes))

    def memory_peak(self) -> int | None:
        return _number(self.place / "memory.max_usage_in_bytes")

    def oom_kills(self) -> int:
        return _keyed(self.place / "memory.oom_control").get("oom_kill", 0)


@dataclass(frozen=True, slots=True)
class CpuV1:
    """Processors in a hierarchy of version 1."""

    place: Path

    def limit(self, limits: ResourceLimits) -> None:
        quota = None if limits.cpus is None else round(limits.cpus * PERIOD_US)
        _write(self.place / "cpu.cfs_quota_us", _or_none(quota))

    def memory_peak(self) -> int | None:
        return None

    def oom_kills(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class UnifiedV2:
    """Memory and processors in the hierarchy of version 2."""

    place: Path

    def limit(self, limits: ResourceLimits) -> None:
        if limits.memory_bytes is not None:
            self._refuse_what_kills(limits.memory_bytes)
            _write(self.place / "memory.max", str(limits.memory_bytes))
            with suppress(OSError):
                _write(self.place / "memory.swap.max", "0")
        if limits.cpus is not None:
            _write(self.place / "cpu.max", f"{round(limits.cpus * PERIOD_US)} {PERIOD_US}")

    def _refuse_what_kills(self, memory_bytes: int) -> None:
        """Version 1 refuses a limit below what is used; this one would kill somebody to keep it."""
        if (_number(self.place / "memory.current") or 0) > memory_bytes:
            raise OSError(errno.EBUSY, "more is used already")

    def memory_peak(self) -> int | None:
        return _number(self.place / "memory.peak")

    def oom_kills(self) -> int:
        return _keyed(self.place / "memory.events").get("oom_kill", 0)


@dataclass(frozen=True, slots=True)
class Mountpoint:
    """Where a hierarchy is mounted, which part of it, and its controllers; version 2 has none of its own here."""

    path: Path
    root: str
    controllers: frozenset[str]


class ControlGroup:
    """The group of one run. Processes are let in by a file that is open, also those that run as somebody else."""

    def __init__(self, parts: tuple[_Hierarchy, ...]) -> None:
        self._parts = parts
        self._doors = [os.open(part.place / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC) for part in parts]
        self._kills = self.oom_kills()

    @classmethod
    def create(cls, name: str, limits: ResourceLimits, proc: Path = Path("/proc/self")) -> "ControlGroup | None":
        """A group that can hold these limits, with nobody in it; None where there can be none."""
        if not limits.any:
            return None
        missing = {one for one, given in (("memory", limits.memory_bytes), ("cpu", limits.cpus)) if given is not None}
        found: list[_Hierarchy] = []
        own = _own_groups(proc)
        for mount in _mounts(proc):
            for controllers, part in _parts(mount, own, name, frozenset(missing)):
                found.append(part)
                missing -= controllers
        try:
            if missing:
                raise OSError("not every limit has a place")
            for part in found:
                part.limit(limits)
            return cls(tuple(found))
        except OSError:
            for part in found:
                _remove(part.place)
            return None

    def enter(self) -> None:
        """Move the calling process into the group; called in a child before it runs anything else."""
        for door in self._doors:
            with suppress(OSError):
                os.write(door, b"0")

    def admit(self, pid: int) -> None:
        """Move a process into the group that could not enter by itself."""
        for door in self._doors:
            with suppress(OSError):
                os.write(door, str(pid).encode())

    def limit(self, limits: ResourceLimits) -> None:
        """Change the limits; one that is below what is used already stays as it is."""
        for part in self._parts:
            with suppress(OSError):
                part.limit(limits)

    def pids(self) -> list[int]:
        """Everybody in the group, wherever they have moved otherwise."""
        return sorted({pid for part in self._parts for pid in _members(part.place)})

    @property
    def memory_peak(self) -> int | None:
        """The most memory its processes ever held together."""
        return next((peak for part in self._parts if (peak := part.memory_peak()) is not None), None)

    def oom_kills(self) -> int:
        """How often the kernel has killed one of them for want of memory."""
        return sum(part.oom_kills() for part in self._parts)

    def ran_out_of_memory(self) -> bool:
        """Whether that has happened since somebody last asked."""
        before, self._kills = self._kills, self.oom_kills()
        return self._kills > before

    def end(self) -> None:
        """Kill whoever is in it, and remove it."""
        for door in self._doors:
            os.close(door)
        self._doors = []
        for part in self._parts:
            _end(part.place)


def end_groups(prefix: str, proc: Path = Path("/proc/self")) -> None:
    """End the groups whose names begin so, with whoever is in them: those that an agent which was killed has left."""
    for place in _groups(prefix, proc):
        _end(place)


def enter_groups(prefix: str, proc: Path = Path("/proc/self")) -> None:
    """Move this process into the groups whose names begin so."""
    for place in _groups(prefix, proc):
        with suppress(OSError):
            _write(place / "cgroup.procs", "0")


def _groups(prefix: str, proc: Path) -> list[Path]:
    own = _own_groups(proc)
    bases = [
        _below(mount, own.get(controller, "/")) for mount in _mounts(proc) for controller in mount.controllers or {""}
    ]
    return [place for base in bases for around in (base, base.parent) for place in around.glob(f"{prefix}*")]


def _parts(
    mount: Mountpoint, own: Mapping[str, str], name: str, asked: frozenset[str]
) -> Iterator[tuple[frozenset[str], _Hierarchy]]:
    """What can be made in a hierarchy of what is still asked for, each with what it limits."""
    kinds: Mapping[str, type[MemoryV1] | type[CpuV1]] = {"memory": MemoryV1, "cpu": CpuV1}
    for controller in sorted(asked & mount.controllers):
        if place := _made(_below(mount, own.get(controller, "/")), name):
            yield frozenset({controller}), kinds[controller](place)
    if asked and not mount.controllers and (unified := _unified(_below(mount, own.get("", "/")), name, sorted(asked))):
        yield asked, unified


def _unified(own: Path, name: str, asked: list[str]) -> UnifiedV2 | None:
    """Below our own group, or beside it: a group of version 2 that has processes cannot limit groups below it."""
    for base in (own, own.parent):
        with suppress(OSError):
            _write(base / "cgroup.subtree_control", " ".join(f"+{one}" for one in asked))
        place = _made(base, name)
        if place is not None and all((place / f"{one}.max").exists() for one in asked):
            return UnifiedV2(place)
        if place is not None:
            _remove(place)
    return None


def _made(base: Path, name: str) -> Path | None:
    try:
        (base / name).mkdir(exist_ok=True)
    except OSError:
        return None
    return base / name


def _mounts(proc: Path) -> Iterator[Mountpoint]:
    for line in _lines(proc / "mountinfo"):
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.partition(" ")
        if kind not in ("cgroup", "cgroup2"):
            continue
        root, path = fields.split()[3:5]
        controllers = frozenset(options.split()[-1].split(",")) & {"memory", "cpu"} if kind == "cgroup" else frozenset()
        if controllers or kind == "cgroup2":
            yield Mountpoint(Path(path), root, controllers)


def _own_groups(proc: Path) -> dict[str, str]:
    """Our own group in the hierarchy of each controller; that of version 2 has no name."""
    groups = {}
    for line in _lines(proc / "cgroup"):
        _, controllers, path = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), path))
    return groups


def _below(mount: Mountpoint, group: str) -> Path:
    inside = group.removeprefix(mount.root) if mount.root != "/" else group
    place = mount.path / inside.strip("/")
    return place if place.is_dir() else mount.path


def _or_none(amount: int | None) -> str:
    return _NO_LIMIT if amount is None else str(amount)


def _write(file: Path, text: str) -> None:
    with open(file, "w") as handle:
        handle.write(text)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


def _number(file: Path) -> int | None:
    first = next(iter(_lines(file)), "")
    return int(first) if first.isdecimal() else None


def _keyed(file: Path) -> dict[str, int]:
    pairs = [line.split() for line in _lines(file)]
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _members(place: Path) -> list[int]:
    return [int(line) for line in _lines(place / "cgroup.procs") if line.isdecimal() and line != "0"]


def _end(place: Path) -> None:
    deadline = time.monotonic() + _INSIST_S
    while (pids := _members(place)) and time.monotonic() < deadline:
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
    _remove(place)


def _remove(place: Path) -> None:
    with suppress(OSError):
        place.rmdir()
