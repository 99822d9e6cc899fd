"""What a submission costs while very many jobs wait: processor time and memory of each, without HTTP and without runs.

``python -m bench.waiting [--jobs 60000] [--steps 6] [--rate 0]`` puts a platform together in this process, on a backend
whose runs never end, and submits jobs from 24 threads, so that nearly all of them wait. The loop passes beside them as
in a server. ``--rate`` is how many a second; as many as can be without it. Prints a line for each step.
"""

import argparse
import gc
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil

from penstock.client import DataDir
from penstock.serve import Config, assembled, limit_heaps

_SPEC = {"command": "train", "work": "10 steps", "best_effort": True, "environment": {"working_dir": "/"}}
_THREADS = 24


def main() -> None:
    asked = arguments()
    limit_heaps()
    with tempfile.TemporaryDirectory() as folder, submitting(Path(folder)) as submit:
        process, step = psutil.Process(), asked.jobs // asked.steps
        used = _resident(process)
        for number in range(1, asked.steps + 1):
            processor_s, wall_s = _submitted(submit, step, asked.rate)
            used, before = _resident(process), used
            sys.stdout.write(
                f"{number * step} jobs: {1e3 * processor_s / step:.2f} ms of processor for each submission, "
                f"{step / wall_s:.0f} a second, {(used - before) / step / 1e3:.1f} KB for each, {used >> 20} MiB\n"
            )
            sys.stdout.flush()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.waiting", description=__doc__)
    parser.add_argument("--jobs", type=int, default=60_000)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rate", type=float, default=0.0)
    return parser.parse_args()


@contextmanager
def submitting(folder: Path) -> Iterator[Callable[[], object]]:
    """A platform with its loop; what submits a job to it."""
    data_dir, stop = DataDir(folder), threading.Event()
    config = Config(data_dir=folder, backend="bench.null_backend:NullBackend", accept_shared_user=True)
    with assembled(config, data_dir) as parts:
        owner = parts.platform.authenticate(data_dir.owner_token() or "")
        loop = threading.Thread(target=parts.reconciler.run, args=(stop,), daemon=True)
        loop.start()
        try:
            yield lambda: parts.platform.submit(_SPEC, owner)
        finally:
            stop.set()
            parts.reconciler.nudge()
            loop.join()


def _submitted(submit: Callable[[], object], jobs: int, rate: float) -> tuple[float, float]:
    """Processor and wall-clock seconds that so many took."""
    processor, wall = time.process_time(), time.perf_counter()
    with ThreadPoolExecutor(_THREADS) as threads:
        futures = []
        for number in range(jobs):
            if rate:
                time.sleep(max(0.0, wall + number / rate - time.perf_counter()))
            futures.append(threads.submit(submit))
        for future in futures:
            future.result()
    return time.process_time() - processor, time.perf_counter() - wall


def _resident(process: psutil.Process) -> int:
    gc.collect()
    return int(process.memory_info().rss)


if __name__ == "__main__":
    main()
