"""The part of a failed run's last output that its author can act on: the lines of their own code, and the error.

Frames of the interpreter, of installed packages and of our own are left out, unless nothing else is there.
"""

import re
from collections.abc import Sequence

from penstock.web.log_levels import RANK, rank_of

_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s*File "(?P<path>[^"]+)", line \d+')
_FOREIGN = re.compile(r"site-packages|dist-packages|<frozen |/lib/python3|/penstock/(backends|runtime|elastic)")
_MOST_LINES = 14
_LAST_WORDS = 4


def failure_excerpt(tail: Sequence[str]) -> list[str]:
    """The author's frames of the last traceback and its error, or the last words of a run without one."""
    told = [(rank_of(line), RANK.sub("", line).rstrip()) for line in tail]
    workers = dict.fromkeys(rank for rank, line in told if line == _TRACEBACK)
    parted = [_parted([line for rank, line in told if rank == worker]) for worker in workers]
    if not parted:
        return [line for _, line in told if line][-_LAST_WORDS:]
    frames, ending = next((one for one in parted if one[1]), parted[0])
    own = [frame for frame in frames if not _FOREIGN.search(frame[0])] or frames[-1:]
    return [*(line for frame in own for line in frame), *ending][-_MOST_LINES:]


def _parted(output: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """The frames of a worker's last traceback, each with its code, and the error below them."""
    lines = output[len(output) - list(reversed(output)).index(_TRACEBACK) :]
    frames: list[list[str]] = []
    for place, line in enumerate(lines):
        if _FRAME.match(line):
            frames.append([line])
        elif line.startswith((" ", "\t")) and frames:
            frames[-1].append(line)
        elif line.strip():
            return frames, [one for one in lines[place:] if one.strip()]
    return frames, []
