"""A worker's standard output and error: through named pipes into bounded logs, line by line into the merged one.

Pipes rather than files, because a file that a worker holds open cannot be rotated under it; named, because a zygote
opens them by path. The agent holds each pipe open for writing too, so it never sees an end of file and needs none: it
drains a pipe when the process is gone.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from penstock.backends.agent.log_times import LogTimes
from penstock.backends.agent.logs import LogWriter
from penstock.backends.agent.ownership import hand_over, let_through
from penstock.backends.agent.secrets import NOTHING_HIDDEN, Mask
from penstock.tools import UnixUser

MERGED_LOG = "merged.log"
"""Where all workers of a run write together, in the run's directory."""
STREAMS = ("stdout", "stderr")
TAIL_LINES = 20
MOST_REMARKS = 20
"""Words of ours in the output of one run."""
_CHUNK = 64 * 1024
_LONGEST_LINE = 64 * 1024
_LONGEST_TAIL_LINE = 2000


def worker_directory(run_directory: Path, worker_id: str) -> Path:
    """Where one worker's output goes."""
    return run_directory / "workers" / worker_id


class LineSink(Protocol):
    """Where the complete lines of one worker go."""

    rank: int

    def take(self, stream: str, lines: Sequence[bytes], raw: bytes | None = None) -> None:
        """Some lines; ``raw`` is how they came, where that is known."""
        ...

    def note(self, text: str) -> None:
        """A last word of ours about the worker."""
        ...

    def tail(self) -> tuple[str, ...]:
        """Its last lines."""
        ...

    def close(self) -> None: ...


class OutputSink(Protocol):
    """Where the output of all workers of a run goes."""

    def open(self, worker_id: str, rank: int) -> LineSink: ...

    def remark(self, text: str) -> None:
        """A word of ours among the output of the workers, as long as there are not too many."""
        ...

    def close(self) -> None: ...


class WorkerLog:
    """The logs of one worker on the disk: one for each stream, one for both, and its share of the merged one."""

    def __init__(
        self,
        directory: Path,
        merged: LogWriter,
        rank: int,
        on_line: Callable[[str, str], None],
        mask: Mask = NOTHING_HIDDEN,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._mask = mask
        self._merged = merged
        self._on_line = on_line
        self._both = _timed_log(directory / "output.log", clock)
        self._streams = {name: _timed_log(directory / f"{name}.log", clock) for name in STREAMS}
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.rank = rank

    def take(self, stream: str, lines: Sequence[bytes], raw: bytes | None = None) -> None:
        shown = [self._mask(line) for line in lines]
        whole = b"".join(line + b"\n" for line in shown)
        self._streams[stream].write(whole if raw is None or self._mask.hides else raw)
        self._both.write(whole)
        self._merged.write(b"".join(b"[%d] %s\n" % (self.rank, line) for line in shown))
        for line in shown:
            text = line.decode(errors="replace")
            self.note(text)
            self._on_line(stream, text)

    def note(self, text: str) -> None:
        self._tail.append(text[-_LONGEST_TAIL_LINE:])

    def tail(self) -> tuple[str, ...]:
        return tuple(self._tail)

    def close(self) -> None:
        for log in (self._both, *self._streams.values()):
            log.close()


class RunLog:
    """All output of a run, below its directory; ``on_line`` hears every line with its worker and stream."""

    def __init__(
        self,
        directory: Path,
        on_line: Callable[[str, str, str], None],
        mask: Mask = NOTHING_HIDDEN,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._directory = directory
        self._on_line = on_line
        self._mask = mask
        self._clock = clock
        self._merged = _timed_log(directory / MERGED_LOG, clock)
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._remarks = 0

    def open(self, worker_id: str, rank: int) -> WorkerLog:
        directory = worker_directory(self._directory, worker_id)
        hear = partial(self._take, worker_id)
        return WorkerLog(directory, self._merged, rank, hear, self._mask, self._clock)

    def remark(self, text: str) -> None:
        if self._remarks < MOST_REMARKS:
            self._remarks += 1
            self._merged.write(b"penstock: %s\n" % text.encode(errors="replace"))

    def tail(self) -> tuple[str, ...]:
        """The last lines of the whole run."""
        return tuple(self._tail)

    def close(self) -> None:
        self._merged.close()

    def _take(self, worker_id: str, stream: str, line: str) -> None:
        self._tail.append(line)
        self._on_line(worker_id, stream, line)


def _timed_log(path: Path, clock: Callable[[], float]) -> LogWriter:
    return LogWriter(path, times=LogTimes(path, clock))


@dataclass(slots=True)
class Stream:
    """One pipe."""

    name: str
    fifo: Path
    handle: int
    partial: bytes = b""


class WorkerOutput:
    """Both streams of one process, on their way into a log."""

    def __init__(self, directory: Path, log: LineSink, user: UnixUser | None = None) -> None:
        for folder in (directory.parent, directory):
            let_through(folder, user)
        self.log = log
        self.streams = tuple(_open_stream(directory, name, user) for name in STREAMS)

    def read(self, stream: Stream) -> bool:
        """Take in what is there, a chunk at most; whether there was anything."""
        try:
            data = os.read(stream.handle, _CHUNK)
        except BlockingIOError:
            return False
        self.log.take(stream.name, list(_split(stream, data)), data)
        return True

    def close(self) -> None:
        """Take in what is left and remove the pipes."""
        for stream in self.streams:
            while self.read(stream):
                pass
            if stream.partial:
                self.log.take(stream.name, [stream.partial], b"")
            os.close(stream.handle)
            with suppress(OSError):
                stream.fifo.unlink()
        self.log.close()


def _open_stream(directory: Path, name: str, user: UnixUser | None) -> Stream:
    fifo = directory / f"{name}.pipe"
    fifo.unlink(missing_ok=True)
    os.mkfifo(fifo, 0o600)
    hand_over(fifo, user)
    handle = os.open(fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    return Stream(name, fifo, handle)


def _split(stream: Stream, data: bytes) -> Iterator[bytes]:
    """Complete lines; what has no end yet stays, unless it grew too long to be a line."""
    *lines, stream.partial = (stream.partial + data).split(b"\n")
    yield from lines
    if len(stream.partial) > _LONGEST_LINE:
        yield stream.partial
        stream.partial = b""
