"""Run the strangers on this machine's device: iterations, host, memory, and every operation with its time.

``python -m bench.strangers.measure --out FILE --minutes M`` needs PyTorch and NumPy only. A network that fails is
written down with its error; one that breaks the device is too, and the rest goes on in a new process. What is there
already is not measured again.
"""

import argparse
import gc
import gzip
import json
import os
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from bench.strangers.catalogue import STRANGERS, Stranger
from penstock.predict.lab.measuring.environment import environment, measured_gpu
from penstock.predict.lab.measuring.operation_timing import record
from penstock.predict.lab.measuring.training import Training


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True, help="a .jsonl.gz file, gone on from if it is there")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--seconds", type=float, default=0.6, help="how long to watch each network")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--only", default="", help="comma-separated names")
    parser.add_argument("--largest", type=int, default=0, help="batches of at most so much, to try it out")
    parser.add_argument("--until", type=float, default=0.0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    end = given.until or time.time() + 60 * given.minutes
    gpu = measured_gpu(given.device)
    if not given.out.exists():
        append(given.out, {"environment": environment(given.device, gpu)})
    for stranger, batch in wanted(given):
        if time.time() > end:
            print("time is up", flush=True)
            return
        found = measured(stranger, batch, given.device, given.seconds, gpu)
        append(given.out, found)
        print(summary(found), flush=True)
        if "CUDA error" in found.get("error", ""):
            again = [word for word in sys.argv[1:] if not word.startswith("--until")] + [f"--until={end}"]
            os.execv(sys.executable, [sys.executable, "-m", "bench.strangers.measure", *again])


def wanted(given: argparse.Namespace) -> Iterator[tuple[Stranger, int]]:
    """First everyone's larger batch, then the smaller ones; what was measured already is left out."""
    names = set(filter(None, given.only.split(",")))
    done = {(each["name"], each["batch"]) for each in records(given.out) if "name" in each}
    for place in (1, 0):
        for stranger in STRANGERS:
            batch = min(stranger.batches[place], given.largest or 1 << 40)
            if (stranger.name, batch) not in done and (not names or stranger.name in names):
                done.add((stranger.name, batch))
                yield stranger, batch


def measured(stranger: Stranger, batch: int, device: str, seconds: float, gpu: Any) -> dict[str, Any]:
    about: dict[str, Any] = {
        "name": stranger.name, "kind": stranger.kind, "batch": batch, "precision": stranger.setup.precision,
        "layout": str(stranger.setup.layout), "optimizer": stranger.setup.optimizer,
    }  # fmt: skip
    began = time.perf_counter()
    try:
        return about | _measured(stranger, batch, device, seconds, gpu) | {"took_s": time.perf_counter() - began}
    except Exception as problem:
        traceback.print_exc()
        return about | {"error": f"{type(problem).__name__}: {problem}"[:2000]}
    finally:
        gc.collect()
        if device == "cuda" and torch.cuda.is_available():
            _quietly_clean()


def _quietly_clean() -> None:
    try:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    except RuntimeError as problem:
        print(f"the device is lost: {problem}", flush=True)


def _measured(stranger: Stranger, batch: int, device: str, seconds: float, gpu: Any) -> dict[str, Any]:
    setup = stranger.setup if device == "cuda" else replace(stranger.setup, precision="fp32")
    training = Training(stranger.hook, batch, setup, device)
    whole = asdict(training.time(seconds, gpu))
    used = _used_bytes() if device == "cuda" else None
    issued = sorted(training._issue() for _ in range(5))[2]
    seen = record(training.step, device)
    return whole | {
        "issue_s": issued, "used_bytes": used, "busy_s": seen.busy_s, "kernels": seen.kernels,
        "clock_mhz": gpu.clock_mhz() if gpu else None, "operations": [each.plain() for each in seen.operations],
    }  # fmt: skip


def _used_bytes() -> int:
    """What the driver counts for this process and everything it holds."""
    free, total = torch.cuda.mem_get_info()
    return total - free


def append(path: Path, found: dict[str, Any]) -> None:
    """Members of a gzip file stand one behind another, so that what was written is kept whatever comes."""
    with gzip.open(path, "at") as file:
        file.write(json.dumps(found) + "\n")


def records(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    with gzip.open(path, "rt") as file:
        for line in file:
            yield json.loads(line)


def summary(found: dict[str, Any]) -> str:
    head = f"{found['name']:16s} {found['batch']:6d}"
    if "error" in found:
        return f"{head} {found['error'].splitlines()[0]}"
    return (
        f"{head} {1e3 * found['seconds']:9.2f} ms, host {1e3 * found['issue_s']:8.2f}, busy "
        f"{1e3 * found['busy_s']:8.2f}, {len(found['operations']):4d} operations, took {found['took_s']:.1f} s"
    )


if __name__ == "__main__":
    main()
