"""All measurements on a device, each step in a process that is ended if it hangs.

``--out FOLDER --steps first=4,zoo=1,second=4`` gives each step so many minutes at most. A process that says nothing for
a while is killed, what it was at is written down, and another one goes on behind it.
"""

import argparse
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from bench.strangers.measure import append

_SILENCE_S = 16.0
_FIRST_SILENCE_S = 45.0
STEPS = {
    "first": ("measure", "--pass=1"), "second": ("measure", "--pass=2"), "third": ("measure", "--pass=3"),
    "zoo": ("measure", "--pass=1", "--zoo"),
    "kernels": ("measure", "--pass=0", "--profile"), "operations": ("operations",),
}  # fmt: skip
"""What there is to measure: a script and its options."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", default="first=4,zoo=1,second=4,kernels=2,operations=3", help=", ".join(STEPS))
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--more", nargs=argparse.REMAINDER, default=[], help="options for all scripts")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for step in given.steps.split(","):
        name, _, minutes = step.partition("=")
        end = time.time() + 60 * float(minutes)
        while not supervise(STEPS[name], given, end):
            print(f"-- {name} goes on", flush=True)


def supervise(step: tuple[str, ...], given: argparse.Namespace, end: float) -> bool:
    """Whether the script came to its end, or its time did."""
    left = end - time.time()
    if left < 5:
        return True
    script, *options = step
    file = given.out / f"{script}.jsonl"
    command = [sys.executable, "-u", "-m", f"bench.strangers.{script}", f"--out={file}", f"--minutes={left / 60:.3f}"]
    child = subprocess.Popen(
        [*command, *options, f"--device={given.device}", *given.more],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert child.stdout is not None
    last, patience, pending = "", _FIRST_SILENCE_S, b""
    while time.time() < end + 2:
        ready, _, _ = select.select([child.stdout], [], [], min(patience, max(0.1, end + 2 - time.time())))
        if not ready:
            break
        found = os.read(child.stdout.fileno(), 1 << 16)
        if not found:
            return child.wait() == 0
        pending, patience = pending + found, _SILENCE_S
        for line in pending.decode(errors="replace").splitlines():
            last = line if line.startswith("begin ") else last
        pending = pending[pending.rfind(b"\n") + 1 :]
        sys.stdout.write(found.decode(errors="replace"))
        sys.stdout.flush()
    child.send_signal(signal.SIGKILL)
    child.wait()
    if time.time() < end:
        _write_down(file, last, next((int(each[7:]) for each in options if each.startswith("--pass=")), 0))
    return time.time() >= end


def _write_down(file: Path, last: str, round: int) -> None:
    print(f"-- hangs at: {last}", flush=True)
    words = last.split()
    if len(words) != 3:
        return
    if words[1] == "group":
        append(file, {"group": int(words[2]), "errors": ["timed out"], "operations": []})
    else:
        append(file, {"name": words[1], "batch": int(words[2]), "pass": round, "error": "timed out"})


if __name__ == "__main__":
    main()
