"""Run the strangers on this machine's device: iterations, host, memory, and every operation with its time.

``python -m bench.strangers.measure --out FILE --minutes M`` needs PyTorch and NumPy only. A network that fails is
written down with its error. What is there already is not measured again, so that ``bench.strangers.campaign`` can end
a run that hangs and go on behind it.

``--profile`` records kernels instead of timing iterations: a process in which the profiler ran once launches kernels
more slowly ever after. Hosts take longer at one time than at another, so iterations are measured in several passes
(``--pass``), each in a process of its own, and a loop of small operations is timed beside each of them.
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
from penstock.predict.capture import Setup
from penstock.predict.lab.measuring.environment import environment, measured_gpu
from penstock.predict.lab.measuring.operation_timing import host_seconds, record
from penstock.predict.lab.measuring.training import Training
from penstock.predict.lab.networks.random_networks import random_network
from penstock.predict.zoo import NETWORKS

_STUCK_S = 11.0
_REFERENCE = 300
_FIRST_DRAWN, _DRAWN = 7000, 40
RECURRENT = frozenset(["recurrent", "text recognition", "sentence autoencoder"])
"""Kinds that are measured without the profiler, and last: with it they may hang."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True, help="a .jsonl file, gone on from if it is there")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--seconds", type=float, default=0.35, help="how long to watch each network")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--only", default="", help="comma-separated names")
    parser.add_argument("--pass", dest="round", type=int, default=1, help="which time this is; 0 with --profile")
    parser.add_argument("--profile", action="store_true", help="kernels instead of iterations")
    parser.add_argument("--blind", action="store_true", help="the blind ones alone")
    parser.add_argument("--zoo", action="store_true", help="networks of zoo() instead: what may be learned from")
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
        measured(stranger, batch, given, gpu)
        faulthandler.cancel_dump_traceback_later()


def wanted(given: argparse.Namespace) -> Iterator[tuple[Stranger, int]]:
    """Networks in turns, both batches of each one after the other, what may hang last; what is there is left out."""
    names = set(filter(None, given.only.split(",")))
    done = {(each["name"], each["batch"], each.get("pass")) for each in records(given.out) if "name" in each}
    every = zoo() if given.zoo else [each for each in STRANGERS if each.blind or not given.blind]
    ordered = sorted(every, key=lambda each: each.kind in RECURRENT)
    for stranger in ordered:
        if (given.profile and stranger.kind in RECURRENT) or (names and stranger.name not in names):
            continue
        for batch in stranger.batches[1:] if given.profile else stranger.batches:
            batch = min(batch, given.largest or 1 << 40)
            if (stranger.name, batch, given.round) not in done:
                done.add((stranger.name, batch, given.round))
                yield stranger, batch


def zoo() -> list[Stranger]:
    """Networks that predictions may learn from: of the zoo at their smallest batch, in three precisions by turns, and
    random ones."""
    known = [network for network in NETWORKS if not network.held_out]
    drawn = [random_network(number, "cuda") for number in range(_FIRST_DRAWN, _FIRST_DRAWN + _DRAWN)]
    return [
        Stranger(name=each.label, kind="zoo", build=each.hook, batches=(each.batch, each.batch), setup=each.setup)
        for each in drawn
    ] + [
        Stranger(
            name=network.name, kind="zoo", build=network.hook, batches=(network.batches[0], network.batches[0]),
            setup=Setup(precision=("bf16", "amp-bf16", "tf32")[place % 3], optimizer=network.optimizer),
        )
        for place, network in enumerate(known)
    ]  # fmt: skip


def measured(stranger: Stranger, batch: int, given: argparse.Namespace, gpu: Any) -> None:
    about: dict[str, Any] = {
        "name": stranger.name, "kind": stranger.kind, "batch": batch, "precision": stranger.setup.precision,
        "layout": str(stranger.setup.layout), "optimizer": stranger.setup.optimizer, "pass": given.round,
    }  # fmt: skip
    began = time.perf_counter()
    try:
        setup = stranger.setup if given.device == "cuda" else replace(stranger.setup, precision="fp32")
        training = Training(stranger.hook, batch, setup, given.device)
        if given.profile:
            append(given.out, about | _operations(training))
        else:
            found = about | _times(training, given.seconds, gpu) | {"took_s": time.perf_counter() - began}
            append(given.out, found)
            print(summary(found), flush=True)
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


def _operations(training: Training) -> dict[str, Any]:
    training.warm_up(2)
    seen = record(training.step, training.device)
    print(f"  busy {1e3 * seen.busy_s:.2f} ms, {len(seen.operations)} operations", flush=True)
    operations = [each.plain() for each in seen.operations]
    return {"busy_s": seen.busy_s, "kernels": seen.kernels, "operations": operations}


def _times(training: Training, seconds: float, gpu: Any) -> dict[str, Any]:
    whole = asdict(training.time(seconds, gpu))
    used = _used_bytes() if training.device == "cuda" else None
    issued = sorted(training._issue() for _ in range(5))[2]
    reference = min(_reference_s(training.device) for _ in range(3))
    return whole | {
        "issue_s": issued, "used_bytes": used, "clock_mhz": gpu.clock_mhz() if gpu else None,
        "reference_s": reference, "host_s": _host_seconds(training),
    }  # fmt: skip


def _host_seconds(training: Training) -> dict[str, float]:
    """Nothing where a mode changes what an operation does: connectionist losses then want their lengths on the GPU."""
    try:
        return host_seconds(training.step)
    except RuntimeError as problem:
        print(f"  not watched: {problem}"[:200], flush=True)
        return {}


def _reference_s(device: str) -> float:
    """Seconds of the host for a few hundred small operations: how fast it is just now."""
    value = torch.ones(16, device=device)
    start = time.perf_counter()
    for _ in range(_REFERENCE):
        value = value * 1.0
    taken = time.perf_counter() - start
    if device == "cuda":
        torch.cuda.synchronize()
    return taken / _REFERENCE


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
