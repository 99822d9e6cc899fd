"""What the kernel of this machine has said since a moment: devices that were lost, processes that it killed.

Reading it may not be allowed, in a container above all; then there is nothing, and that is no error.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

_KMSG = Path("/dev/kmsg")
_RECORD = 8_192
_MOST_RECORDS = 50_000
_ABOUT_DEVICES = ("NVRM", "nvidia", "AER:", "PCIe Bus Error", "mlx", "I/O error", "EXT4-fs", "XFS (")
_ABOUT_KILLS = ("Out of memory", "oom-kill", "invoked oom-killer", "Killed process")


def kernel_lines(since: float, *, kills: bool, source: Path = _KMSG) -> list[str]:
    """Lines about devices from ``since`` on, with seconds since the start of the machine before them.

    ``kills``: those about processes that the kernel killed too. Somebody else's may be among them, so they are for runs
    of which a process was killed.
    """
    began = since - (time.time() - time.clock_gettime(time.CLOCK_MONOTONIC))
    words = (*_ABOUT_DEVICES, *(_ABOUT_KILLS if kills else ()))
    return [
        f"[{at:.6f}] {text}" for at, text in _records(source) if at >= began and any(word in text for word in words)
    ]


def _records(source: Path) -> Iterator[tuple[float, str]]:
    """Each record of the kernel's buffer: ``priority,number,microseconds,flags;text`` and lines that go on."""
    try:
        stream = os.open(source, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return
    try:
        for _ in range(_MOST_RECORDS):
            head, _, text = _next_record(stream).partition(";")
            fields = head.split(",")
            if len(fields) < 3:
                return
            if fields[2].isdigit():
                yield int(fields[2]) / 1e6, text.partition("\n")[0]
    finally:
        os.close(stream)


def _next_record(stream: int) -> str:
    """The next record; empty at the end. One that was written over while it was read is passed over."""
    while True:
        try:
            return os.read(stream, _RECORD).decode("utf-8", "replace")
        except BrokenPipeError:
            continue
        except OSError:
            return ""
