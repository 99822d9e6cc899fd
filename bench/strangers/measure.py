"""Run the strangers on this machine's device: iterations, host, memory, and every operation with its time.

``python -m bench.strangers.measure --out FILE --minutes M`` needs PyTorch and NumPy only. A network that fails is
written down with its error. What is there already is not measured again, so that ``bench.strangers.campaign`` can end
a run that hangs and go on behind it.
"""

import argparse
import faulthandler
import gc
import gzip
import json
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

_STUCK_S = 11.0
RECURRENT = frozenset(["recurrent", "text recognition", "sentence autoencoder"])
"""Kinds that are measured without the profiler, and last: with it they may hang."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True, help="a .jsonl file, gone on from if it is there")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--seconds", type=float, default=0.35, help="how long to watch each network")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--only", default="", help="comma-separated names")
    parser.add_argument("--blind", action="store_true", help="the blind ones alone")
    parser.add_argument("--largest", type=int, default=0, help="batches of at most so much, to try it out")
    given = parser.parse_args()
    end = time.time() + 60 * given.minutes
    gpu = measured_gpu(given.device)
    if not given.out.exists():
        append(given.out, {"environment": environment(given.device, gpu)})
    for stranger, batch in wanted(given):
        if time.time() > end:
            print("time is up", flush=True)
            return
        print(f"begin {stranger.name} {batch}", flush=True)
        faulthandler.dump_traceback_later(_STUCK_S)
        watched = batch >= min(stranger.batches[1], given.largest or 1 << 40) and stranger.kind not in RECURRENT
        measured(stranger, batch, given, gpu, watched)
        faulthandler.cancel_dump_traceback_later()


def wanted(given: argparse.Namespace) -> Iterator[tuple[Stranger, int]]:
    """First everyone's larger batch, then the smaller ones, and last what may hang; what is there is left out."""
    names = set(filter(None, given.only.split(",")))
    done = {(each["name"], each["batch"]) for each in records(given.out) if "name" in each}
    every = [each for each in STRANGERS if each.blind or not given.blind]
    safe = [each for each in every if each.kind not in RECURRENT]
    rest = [each for each in every if each.kind in RECURRENT]
    for some, place in ((safe, 1), (safe, 0), (rest, 1), (rest, 0)):
        for stranger in some:
            batch = min(stranger.batches[place], given.largest or 1 << 40)
            if (stranger.name, batch) not in done and (not names or stranger.name in names):
                done.add((stranger.name, batch))
                yield stranger, batch


def measured(stranger: Stranger, batch: int, given: argparse.Namespace, gpu: Any, watched: bool) -> None:
    """Times first; they are written down before anything is watched."""
    about: dict[str, Any] = {
        "name": stranger.name, "kind": stranger.kind, "batch": batch, "precision": stranger.setup.precision,
        "layout": str(stranger.setup.layout), "optimizer": stranger.setup.optimizer,
    }  # fmt: skip
    began = time.perf_counter()
    try:
        setup = stranger.setup if given.device == "cuda" else replace(stranger.setup, precision="fp32")
        training = Training(stranger.hook, batch, setup, given.device)
        found = about | _times(training, given.seconds, gpu) | {"took_s": time.perf_counter() - began}
        append(given.out, found)
        print(summary(found), flush=True)
        if watched:
            seen = record(training.step, given.device)
            operations = [each.plain() for each in seen.operations]
            append(given.out, {**about, "busy_s": seen.busy_s, "kernels": seen.kernels, "operations": operations})
            print(f"  busy {1e3 * seen.busy_s:.2f} ms, {len(operations)} operations", flush=True)
    except Exception as problem:
        traceback.print_exc()
        append(given.out, about | {"error": f"{type(problem).__name__}: {problem}"[:2000]})
        if "CUDA error" in str(problem):
            sys.exit(3)
    finally:
        training = None  # type: ignore[assignment]
        gc.collect()
        if given.device == "cuda" and torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


def _times(training: Training, seconds: float, gpu: Any) -> dict[str, Any]:
    whole = asdict(training.time(seconds, gpu))
    used = _used_bytes() if training.device == "cuda" else None
    issued = sorted(training._issue() for _ in range(5))[2]
    return whole | {"issue_s": issued, "used_bytes": used, "clock_mhz": gpu.clock_mhz() if gpu else None}


def _used_bytes() -> int:
    """What the driver counts for this process and everything it holds."""
    free, total = torch.cuda.mem_get_info()
    return total - free


def append(path: Path, found: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(found) + "\n")


def records(path: Path) -> Iterator[dict[str, Any]]:
    """Whole lines only: a run may have been ended in the middle of one."""
    if not path.exists():
        return
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:
                continue


def summary(found: dict[str, Any]) -> str:
    return (
        f"{found['name']:16s} {found['batch']:6d} {1e3 * found['seconds']:9.2f} ms, host "
        f"{1e3 * found['issue_s']:8.2f}, took {found['took_s']:.1f} s"
    )


if __name__ == "__main__":
    main()
