"""A job that knows nothing of the platform but its words for progress; it saves its step and goes on from there.

It holds a lock in ``CHAOS_BOOKS`` while it lives: a second process of the same job would be noticed.
"""

import fcntl
import os
import sys
import time
from pathlib import Path

BOOKS = Path(os.environ["CHAOS_BOOKS"])
JOB = os.environ["PENSTOCK_JOB_ID"]


def main(steps: int, code: int) -> int:
    with (BOOKS / f"{JOB}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            (BOOKS / f"{JOB}.double").touch()
        count(steps)
    return code


def count(steps: int) -> None:
    place = Path(os.environ["PENSTOCK_CHECKPOINT_DIR"])
    place.mkdir(parents=True, exist_ok=True)
    saved, draft = place / "step", place / "step.new"
    for step in range(int(saved.read_text()) if saved.exists() else 0, steps):
        time.sleep(0.2 if (BOOKS / "slow").exists() else 0.005)
        draft.write_text(str(step + 1))
        draft.replace(saved)
        print(f"penstock: step={step + 1} total={steps}", flush=True)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
