"""What a signature has to show before it is used: that it finds its example, alone of its kind, and in time.

A pattern that takes exponential time on a long line would hold up every diagnosis, and Python's engine cannot be
stopped from inside. So patterns of others are tried in a process of their own, on lines made to hurt them.

Run as a program it reads one signature as JSON and tries its pattern.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.diagnose.signatures.literals import bounded
from penstock.diagnose.signatures.model import Signature

_LONGEST = 4_096
_MOST_S = 0.25
"""Processor time that a pattern may take for one line."""
_FILLERS = ("a", " ", "0", "a ", "0.", "(", "/", "aA0_-. :")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is wrong with a signature; nothing if ``faults`` is empty."""

    id: str
    faults: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.faults


def tried(signature: Signature, *, patience_s: float = 0.0) -> Trial:
    """Try a signature on its own example; with patience also on lines that could take it for ever."""
    faults = list(_faults(signature))
    if not faults and patience_s and not _is_quick(signature, patience_s):
        faults.append(f"its regex takes more than {_MOST_S:g} s on a line of {_LONGEST} characters: bound its repeats")
    return Trial(id=signature.id, faults=tuple(faults))


def _faults(signature: Signature) -> Iterator[str]:
    try:
        for pattern in (signature.regex, signature.near, signature.unless):
            re.compile(pattern)
    except re.error as error:
        yield f"its regex does not compile: {error}"
        return
    if not signature.example:
        yield "it has no example"
    elif signature.search(signature.example, lambda: signature.example) is None:
        yield "its regex does not find its example"
    elif not any(anchor.lower() in f"\n{signature.example}\n".lower() for anchor in signature.anchors):
        yield "none of its anchors is in its example"


def _is_quick(signature: Signature, patience_s: float) -> bool:
    command = [sys.executable, "-m", "penstock.diagnose.signatures.trial"]
    given = json.dumps({
        "patterns": (signature.regex, signature.near, signature.unless), "example": signature.example,
        "anchors": signature.anchors, "most_s": _MOST_S,
    })  # fmt: skip
    try:
        return subprocess.run(command, input=given, text=True, timeout=patience_s, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def hard_lines(example: str, anchors: Iterable[str] = ()) -> Iterator[str]:
    """Lines as long as any that is searched, made of the example, the anchors and of what patterns like to repeat."""
    for whole in (example, *anchors):
        starts = (whole, f"{whole} ") if whole != example else (example, example[: len(example) // 2], "")
        for start in starts:
            yield (start * (_LONGEST // max(1, len(start)) + 1))[:_LONGEST]
            for filler in _FILLERS:
                yield (start + filler * _LONGEST)[: _LONGEST - 1] + "!"


def main() -> None:
    given = json.load(sys.stdin)
    for regex in filter(None, given["patterns"]):
        pattern = re.compile(bounded(regex), re.IGNORECASE)
        for line in hard_lines(given["example"], given["anchors"]):
            began = time.process_time()
            pattern.search(line)
            if time.process_time() - began > given["most_s"]:
                sys.exit(1)


if __name__ == "__main__":
    main()
