"""Single operations that no profile has seen, over sizes and dtypes, each with the time the device takes for it.

``python -m bench.strangers.operations --out FILE --minutes M`` needs PyTorch and NumPy only. Operations come in
turns, a size each, so that a run that is cut off has seen all of them.
"""

import argparse
import faulthandler
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import chain, zip_longest
from pathlib import Path
from statistics import median
from typing import Any

import torch

from bench.strangers.measure import append, records
from penstock.predict.lab.measuring.environment import environment, measured_gpu
from penstock.predict.lab.measuring.operation_timing import OperationWatcher, record
from penstock.predict.lab.measuring.training import _laps_on_cpu, _laps_on_gpu
from penstock.predict.lab.networks.single_operations import OPERATIONS, Prepared, Sizes

_TOGETHER = 16
_STUCK_S = 11.0
UNWATCHED = ("lstm", "lstm trained", "gru", "gru trained", "rnn trained")
SLOW = ("cholesky", "qr", "solve", "inverse", "slogdet", "svd", "eigh")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True, help="a .jsonl file, gone on from if it is there")
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--most-elements", type=float, default=6e7)
    given = parser.parse_args()
    end = time.time() + 60 * given.minutes
    if not given.out.exists():
        append(given.out, {"environment": environment(given.device, measured_gpu(given.device))})
    done = {each["group"] for each in records(given.out) if "group" in each}
    for place, group in enumerate(groups(given.most_elements)):
        if place in done:
            continue
        if time.time() > end:
            print(f"time is up at group {place}", flush=True)
            return
        print(f"begin group {place}", flush=True)
        faulthandler.dump_traceback_later(_STUCK_S)
        whole = group[0][0] in UNWATCHED
        found = by_events(group, given.device) if whole else timed(group, given.device)
        faulthandler.cancel_dump_traceback_later()
        append(given.out, {"group": place, **found})


def groups(most: float) -> list[list[tuple[str, Prepared]]]:
    """Some operations together; what hangs with a profiler is timed without one, what is slow comes last."""
    safe = {name: sizes for name, sizes in OPERATIONS.items() if name not in UNWATCHED and name not in SLOW}
    found = []
    for names in ({name: OPERATIONS[name] for name in UNWATCHED}, safe, {name: OPERATIONS[name] for name in SLOW}):
        turns = list(in_turns(names, most))
        found += [turns[place : place + _TOGETHER] for place in range(0, len(turns), _TOGETHER)]
    return found


def by_events(some: Sequence[tuple[str, Prepared]], device: str) -> dict[str, Any]:
    """Seconds of each as a whole, without looking inside."""
    whole, errors = [], []
    for name, prepare in some:
        try:
            with torch.device(device):
                run = prepare()
            for _ in range(3):
                run()
            marks = _laps_on_gpu(run, 0.02) if device == "cuda" else _laps_on_cpu(run, 0.001)
            whole.append([name, repr(getattr(prepare, "args", ())), median(marks)])
        except Exception as problem:
            errors.append(f"{name}: {type(problem).__name__}: {problem}"[:300])
    return {"names": [name for name, _ in some], "errors": errors, "whole": whole}


def in_turns(operations: dict[str, Sizes], most: float) -> Iterator[tuple[str, Prepared]]:
    """The first size of every operation, then the second of every one, and so on."""
    columns = [[(name, prepare) for prepare in sizes(most)] for name, sizes in operations.items()]
    return (each for each in chain.from_iterable(zip_longest(*columns)) if each is not None)


def timed(some: Sequence[tuple[str, Prepared]], device: str) -> dict[str, Any]:
    """Some operations one after another; those that do not run are named."""
    ready, errors = [], []
    for name, prepare in some:
        try:
            with torch.device(device):
                run = prepare()
            run()
            with OperationWatcher(device, lambda _: nullcontext()):
                run()
            ready.append(run)
        except Exception as problem:
            errors.append(f"{name}: {type(problem).__name__}: {problem}"[:300])
    operations: list[Any] = []
    try:
        operations = [each.plain() for each in record(lambda: [run() for run in ready], device).operations]
    except RuntimeError as problem:
        errors.append(f"{type(problem).__name__}: {problem}"[:300])
    if device == "cuda":
        torch.cuda.empty_cache()
    return {"names": [name for name, _ in some], "errors": errors, "operations": operations}


if __name__ == "__main__":
    main()
