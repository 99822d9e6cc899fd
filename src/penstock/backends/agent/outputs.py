"""A worker's standard output and error: through named pipes into bounded logs, line by line into the merged one.

Pipes rather than files, because a file that a worker holds open cannot be rotated under it; named, because a zygote
opens them by path. The agent holds each pipe open for writing too, so it never sees an end of file and needs none: it
drains a pipe when the process is gone.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.backends.agent.logs import LogWriter
from penstock.backends.agent.ownership import hand_over, let_through
from penstock.backends.agent.secrets import NOTHING_HIDDEN, Mask
from penstock.tools import UnixUser

MERGED_LOG = "merged.log"
"""Where all workers of a run write together, in the run's directory."""
TAIL_LINES = 20
_CHUNK = 64 * 1024
_LONGEST_LINE = 64 * 1024
_LONGEST_TAIL_LINE = 2000


def worker_directory(run_directory: Path, worker_id: str) -> Path:
    """Where one worker's output goes."""
    return run_directory / "workers" / worker_id


@dataclass(slots=True)
class Stream:
    """One pipe and the log it feeds."""

    name: str
    fifo: Path
    handle: int
    log: LogWriter
    partial: bytes = b""


class WorkerOutput:
    """Both streams of one process; ``on_line`` hears every complete line with the name of its stream."""

    def __init__(
        self,
        directory: Path,
        merged: LogWriter,
        rank: int,
        on_line: Callable[[str, str], None],
        user: UnixUser | None = None,
        mask: Mask = NOTHING_HIDDEN,
    ) -> None:
        self._mask = mask
        for folder in (directory.parent, directory):
            let_through(folder, user)
        self._merged = merged
        self._on_line = on_line
        self._both = LogWriter(directory / "output.log")
        self.rank = rank
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.streams = tuple(_open_stream(directory, name, user) for name in ("stdout", "stderr"))

    def read(self, stream: Stream) -> bool:
        """Take in what is there, a chunk at most; whether there was anything."""
        try:
            data = os.read(stream.handle, _CHUNK)
        except BlockingIOError:
            return False
        lines = [self._mask(line) for line in _split(stream, data)]
        stream.log.write(b"".join(line + b"\n" for line in lines) if self._mask.hides else data)
        self._take(stream, lines)
        return True

    def close(self) -> None:
        """Take in what is left and remove the pipes."""
        for stream in self.streams:
            while self.read(stream):
                pass
            if stream.partial:
                rest = self._mask(stream.partial)
                stream.log.write(rest if self._mask.hides else b"")
                self._take(stream, [rest])
            os.close(stream.handle)
            stream.log.close()
            with suppress(OSError):
                stream.fifo.unlink()
        self._both.close()

    def _take(self, stream: Stream, lines: list[bytes]) -> None:
        self._both.write(b"".join(line + b"\n" for line in lines))
        self._merged.write(b"".join(b"[%d] %s\n" % (self.rank, line) for line in lines))
        for line in lines:
            text = line.decode(errors="replace")
            self.tail.append(text[-_LONGEST_TAIL_LINE:])
            self._on_line(stream.name, text)


def _open_stream(directory: Path, name: str, user: UnixUser | None) -> Stream:
    fifo = directory / f"{name}.pipe"
    fifo.unlink(missing_ok=True)
    os.mkfifo(fifo, 0o600)
    hand_over(fifo, user)
    handle = os.open(fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    return Stream(name, fifo, handle, LogWriter(directory / f"{name}.log"))


def _split(stream: Stream, data: bytes) -> Iterator[bytes]:
    """Complete lines; what has no end yet stays, unless it grew too long to be a line."""
    *lines, stream.partial = (stream.partial + data).split(b"\n")
    yield from lines
    if len(stream.partial) > _LONGEST_LINE:
        yield stream.partial
        stream.partial = b""
