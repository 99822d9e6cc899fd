"""TensorBoard event files that a script writes anyway: found in the output of its run, followed, taken as metrics.

What lay there before the agent came is of earlier runs and is passed over. In a directory that other jobs use too a
file counts if its name tells that a worker of this run writes it. Of several files with the same tag the newest counts,
so a script that is started again goes on with its curves. Everything is bounded: how deep and how much is looked
through, how many files are followed, how much is read at once.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from penstock.core import MetricValue, is_count, is_metric_name, metric_name
from penstock.tools import Scalar, UnixUser, acting_as, read_regular, read_scalars

LOOK_EVERY_S = 5.0
DEEPEST = 5
MOST_ENTRIES = 2_000
MOST_FILES = 32
READ_AT_ONCE = 1 << 20
_MARK = ".tfevents."
_PARTS_BEFORE_PROCESS = 4
USUAL_DIRECTORIES = ("runs", "lightning_logs", "tb_logs", "logs")
"""Where scripts write event files below their working directory when nobody tells them where."""


class EventFileWatch:
    """Follows the event files below some directories."""

    def __init__(
        self, directories: Iterable[Path], *, shared: Iterable[Path] = (), user: UnixUser | None = None
    ) -> None:
        self._directories = tuple(dict.fromkeys(directories))
        self._shared = tuple(shared)
        self._writers: set[str] = set()
        self._user = user
        self._followed: dict[Path, int] = {}
        self._owners: dict[str, Path] = {}
        with acting_as(user):
            self._read_to = {path: _size(path) for path in self._files()}

    def expect(self, pid: int) -> None:
        """Whatever this process writes is of this run."""
        self._writers.add(str(pid))

    def news(self) -> list[MetricValue]:
        """What was written since the last time, oldest file first."""
        found: list[MetricValue] = []
        with acting_as(self._user):
            for path in self._files():
                if path not in self._followed and (len(self._followed) >= MOST_FILES or not self._has_grown(path)):
                    continue
                order = self._followed.setdefault(path, len(self._followed))
                found += [metric for scalar in self._read(path) if (metric := self._metric(scalar, path, order))]
        return found

    def _has_grown(self, path: Path) -> bool:
        return _size(path) > self._read_to.get(path, 0)

    def _files(self) -> list[Path]:
        own = {path for directory in self._directories for path in _event_files(directory)}
        others = {path for directory in self._shared for path in _event_files(directory) if self._is_ours(path)}
        return sorted(own | others, key=lambda path: path.name)[-MOST_FILES:]

    def _is_ours(self, path: Path) -> bool:
        """TensorBoard's writers name a file after the time, the machine and the process."""
        return not self._writers.isdisjoint(path.name.split(".")[_PARTS_BEFORE_PROCESS:])

    def _read(self, path: Path) -> Sequence[Scalar]:
        at = self._read_to.get(path, 0)
        with suppress(OSError):
            data = read_regular(path, READ_AT_ONCE, at)
            try:
                scalars, size = read_scalars(data)
            except ValueError:
                self._read_to[path] = 1 << 62  # never again
                return ()
            self._read_to[path] = at + size
            return scalars
        return ()

    def _metric(self, scalar: Scalar, path: Path, order: int) -> MetricValue | None:
        name = metric_name(scalar.tag)
        if not is_metric_name(name) or not is_count(scalar.step):
            return None
        owner = self._owners.setdefault(name, path)
        if owner != path:
            if order < self._followed[owner]:
                return None
            self._owners[name] = path
        return MetricValue(name=name, value=scalar.value, step=scalar.step)


def _event_files(directory: Path) -> Iterator[Path]:
    waiting = [(directory, 0)]
    looked_at = 0
    while waiting:
        directory, depth = waiting.pop(0)
        for entry in _entries(directory):
            looked_at += 1
            if looked_at > MOST_ENTRIES:
                return
            if entry.is_dir(follow_symlinks=False):
                if depth < DEEPEST:
                    waiting.append((Path(entry.path), depth + 1))
            elif _MARK in entry.name and entry.is_file(follow_symlinks=False):
                yield Path(entry.path)


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    """What is in a directory, the newest first: a long history of runs must not hide the present one."""
    try:
        with os.scandir(directory) as entries:
            found = [entry for entry, _ in zip(entries, range(MOST_ENTRIES), strict=False)]
        return sorted(found, key=lambda entry: -entry.stat(follow_symlinks=False).st_mtime)
    except OSError:
        return []


def _size(path: Path) -> int:
    try:
        return path.stat(follow_symlinks=False).st_size
    except OSError:
        return 0
