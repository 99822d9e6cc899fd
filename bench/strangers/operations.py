"""Single operations that no profile has seen, over sizes and dtypes, each with the time the device takes for it.

``python -m bench.strangers.operations --out FILE --minutes M`` needs PyTorch and NumPy only. Operations come in
turns, a size each, so that a run that is cut off has seen all of them.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import torch

from bench.strangers.measure import append
from penstock.predict.lab.measuring.environment import environment, measured_gpu
from penstock.predict.lab.measuring.operation_timing import record
from penstock.predict.lab.networks.single_operations import OPERATIONS, Prepared, Sizes

_TOGETHER = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True, help="a .jsonl.gz file")
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--only", default="", help="comma-separated names")
    parser.add_argument("--most-elements", type=float, default=6e7)
    given = parser.parse_args()
    end = time.time() + 60 * given.minutes
    append(given.out, {"environment": environment(given.device, measured_gpu(given.device))})
    wanted = set(filter(None, given.only.split(","))) or set(OPERATIONS)
    turns = list(in_turns({name: OPERATIONS[name] for name in OPERATIONS if name in wanted}, given.most_elements))
    for place in range(0, len(turns), _TOGETHER):
        if time.time() > end:
            print(f"time is up after {place} of {len(turns)}", flush=True)
            return
        append(given.out, timed(turns[place : place + _TOGETHER], given.device))
    print(f"{len(turns)} measured", flush=True)


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
            run()
            ready.append(run)
        except Exception as problem:
            errors.append(f"{name}: {type(problem).__name__}: {problem}"[:300])
    seen = record(lambda: [run() for run in ready], device, steps=3)
    if device == "cuda":
        torch.cuda.empty_cache()
    return {
        "names": [name for name, _ in some],
        "errors": errors,
        "operations": [each.plain() for each in seen.operations],
    }


if __name__ == "__main__":
    main()
