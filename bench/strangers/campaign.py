"""All measurements on a device, each step in a process that is ended if it hangs: ``--out FOLDER --minutes M``.

Networks come first. A process that says nothing for a while is killed, what it was at is written down, and another one
goes on behind it.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--share", type=float, default=0.72, help="of the time that networks may take")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--more", nargs=argparse.REMAINDER, default=[], help="options for both scripts")
    given = parser.parse_args()
    began = time.time()
    given.out.mkdir(parents=True, exist_ok=True)
    for script, share in (("measure", given.share), ("operations", 1.0)):
        file = given.out / f"{script}.jsonl"
        while not supervise(script, file, began + 60 * given.minutes * share, given):
            print(f"-- {script} goes on", flush=True)


def supervise(script: str, file: Path, end: float, given: argparse.Namespace) -> bool:
    """Whether the script came to its end, or its time did."""
    left = end - time.time()
    if left < 5:
        return True
    command = [sys.executable, "-u", "-m", f"bench.strangers.{script}", f"--out={file}", f"--minutes={left / 60:.3f}"]
    child = subprocess.Popen(
        [*command, f"--device={given.device}", *given.more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
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
        _write_down(file, last)
    return time.time() >= end


def _write_down(file: Path, last: str) -> None:
    print(f"-- hangs at: {last}", flush=True)
    words = last.split()
    if len(words) != 3:
        return
    if words[1] == "group":
        append(file, {"group": int(words[2]), "errors": ["timed out"], "operations": []})
    else:
        append(file, {"name": words[1], "batch": int(words[2]), "error": "timed out"})


if __name__ == "__main__":
    main()
