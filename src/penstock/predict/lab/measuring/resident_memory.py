"""What a process holds in memory, by Linux's own account: on a CPU no allocator tells what an iteration needed."""

import re
from dataclasses import dataclass
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_PEAK_ONLY = "5"
"""Written to ``clear_refs``, the highest mark starts again from what is held now (proc(5))."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentBytes:
    now: int
    peak: int


def resident_bytes() -> ResidentBytes | None:
    """None where the system does not say."""
    try:
        told = dict(re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE))
        return ResidentBytes(now=1024 * int(told["VmRSS"]), peak=1024 * int(told["VmHWM"]))
    except (OSError, KeyError):
        return None


def forget_peak() -> None:
    """Networks that ran in this process before are not counted; where that cannot be asked for, they are."""
    try:
        _CLEAR.write_text(_PEAK_ONLY)
    except OSError:
        return
