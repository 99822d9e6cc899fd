"""Do collectives between nodes give what they should, and how fast? What each member of a small world does.

``python -m penstock.diagnose.preflight.collectives RANK SIZE HOST PORT`` is one member. Values are whole numbers that
float32 holds exactly, so that a result is right or wrong, whatever the order of the sum.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

MARK = "penstock-collectives: "
_ELEMENTS = 1 << 16
_LARGE = 1 << 22
_REPEATS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberReport:
    """``bytes_s`` is the rate of a large all-reduce, as one member sees it."""

    rank: int
    wrong: tuple[str, ...]
    bytes_s: float
    problem: str = ""


def member_report(line: str) -> MemberReport | None:
    if MARK not in line:
        return None
    told = json.loads(line.partition(MARK)[2])
    return MemberReport(**{**told, "wrong": tuple(told["wrong"])})


def take_part(rank: int, size: int, host: str, port: int, *, timeout_s: float = 60.0) -> MemberReport:
    """Join the world, try every collective, and say what was wrong."""
    import torch
    import torch.distributed as dist

    on_gpu = torch.cuda.is_available() and dist.is_nccl_available()
    device = torch.device("cuda") if on_gpu else torch.device("cpu")
    limit = timedelta(seconds=timeout_s)
    store = dist.TCPStore(  # type: ignore[attr-defined]
        host, port, size, is_master=rank == 0, timeout=limit, wait_for_workers=False
    )
    dist.init_process_group("nccl" if on_gpu else "gloo", store=store, rank=rank, world_size=size, timeout=limit)
    try:
        wrong = tuple(name for name, well in _tried(dist, rank, size, device) if not well)
        return MemberReport(rank=rank, wrong=wrong, bytes_s=_rate(dist, torch.ones(_LARGE, device=device)))
    finally:
        dist.destroy_process_group()


def _tried(dist: Any, rank: int, size: int, device: Any) -> Iterator[tuple[str, bool]]:
    import torch

    base = (torch.arange(_ELEMENTS, device=device) % 251).float()
    mine = base * (rank + 1)
    ranks = size * (size + 1) // 2
    yield "all-reduce", _well(lambda: _all_reduce(dist, mine), base * ranks)
    yield "all-gather", _well(lambda: _all_gather(dist, mine, size), torch.stack([base * (n + 1) for n in range(size)]))
    whole = torch.cat([base * (n + 1) for n in range(size)])
    yield "reduce-scatter", _well(lambda: _reduce_scatter(dist, whole, size), base * (rank + 1) * size)
    parts = torch.cat([base + 1000 * rank + n for n in range(size)])
    wanted = torch.cat([base + 1000 * n + rank for n in range(size)])
    yield "all-to-all", _well(lambda: _all_to_all(dist, parts), wanted)
    yield "broadcast", _well(lambda: _broadcast(dist, mine), base)


def _well(collective: Callable[[], "Tensor"], wanted: "Tensor") -> bool:
    found = collective()
    return found.shape == wanted.shape and bool((found == wanted).all())


def _all_reduce(dist: Any, mine: "Tensor") -> "Tensor":
    out = mine.clone()
    dist.all_reduce(out)
    return out


def _all_gather(dist: Any, mine: "Tensor", size: int) -> "Tensor":
    import torch

    parts = [torch.empty_like(mine) for _ in range(size)]
    dist.all_gather(parts, mine)
    return torch.stack(parts)


def _reduce_scatter(dist: Any, whole: "Tensor", size: int) -> "Tensor":
    out = whole.new_empty(whole.numel() // size)
    dist.reduce_scatter(out, list(whole.chunk(size)))
    return out


def _all_to_all(dist: Any, parts: "Tensor") -> "Tensor":
    import torch

    out = torch.empty_like(parts)
    dist.all_to_all_single(out, parts)
    return out


def _broadcast(dist: Any, mine: "Tensor") -> "Tensor":
    out = mine.clone()
    dist.broadcast(out, src=0)
    return out


def _rate(dist: Any, tensor: "Tensor") -> float:
    """Bytes of one all-reduce by its seconds, the best of a few."""
    best = 0.0
    for _ in range(_REPEATS):
        dist.barrier()
        started = time.perf_counter()
        dist.all_reduce(tensor)
        float(tensor[0])
        best = max(best, tensor.numel() * tensor.element_size() / (time.perf_counter() - started))
    return best


def main() -> int:
    rank, size, host, port = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    try:
        report = take_part(rank, size, host, port)
    except (RuntimeError, ValueError, OSError) as problem:
        told = f"{type(problem).__name__}: {str(problem).splitlines()[0]}"
        report = MemberReport(rank=rank, wrong=(), bytes_s=0.0, problem=told)
    print(MARK + json.dumps(asdict(report)), flush=True)
    return 1 if report.wrong or report.problem else 0


if __name__ == "__main__":
    sys.exit(main())
