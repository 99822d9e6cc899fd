"""What checkpoints cost and what they save: training standing still, and a lost worker's way back.

``python -m bench.checkpoints`` prints

* how long a checkpoint holds training up at 1, 2 and 6 GB of state (``--sizes 1,2,6``), beside a synchronous one of the
  same tensors (``torch.save`` to the same disk and a sync, as plain scripts do it);
* how long a world of four FSDP2 workers stands still when one of them and its machine's memory are gone, how much of
  that passes before it is noticed, and how many steps are done again: from what peers hold in memory, beside the last
  checkpoint on the disk (``--lost 0.1,0.5`` GB of state; each needs about six times its bytes of memory).

``--blocking`` or ``--recovery`` picks one. ``--gpu`` measures on the GPU at hand instead, with nothing installed but
PyTorch: bytes per second from the device into the arena, and the same comparison there. Every size needs about four
times its bytes of memory, less the moments that a GPU holds. ``--gpu --sizes 6 --rounds 1`` is meant for two minutes.
"""

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.elastic import timed, wait_for

GB = 1_000_000_000
WORKERS, LOST = 4, "w1"
LOST_AT = 12
SAVE_STEPS = 5
_PATIENCE_S = 600.0


def main() -> None:
    options = _options()
    if options.worker:
        worker(options.hidden, memory=options.memory)
        return
    sizes = [float(size) for size in options.sizes.split(",")]
    if options.gpu:
        gpu(sizes, options.rounds)
        return
    chosen = options.blocking or options.recovery
    if options.blocking or not chosen:
        blocking("cpu", sizes, options.rounds)
    if options.recovery or not chosen:
        for size in options.lost.split(","):
            recovery(hidden_of(float(size) * GB), options.rounds)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.checkpoints", description=__doc__.splitlines()[0])
    parser.add_argument("--blocking", action="store_true")
    parser.add_argument("--recovery", action="store_true")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--sizes", default="1,2,6", help="of the state, in GB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lost", default="0.1", help="state of the world that loses a worker, in GB")
    parser.add_argument("--hidden", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


# --- how long training stands still -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trained:
    """A model with its optimizer, and a step of both."""

    parts: Any
    step: Callable[[], None]

    @property
    def bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.parts.capture(0).tensors.values())


def trained(device: str, state_bytes: float) -> Trained:
    """So much state, a third of it weights and the rest AdamW's moments, after one step; steps look at their loss."""
    import torch

    from penstock.runtime.checkpoints.state import Parts

    width = 4096
    layers = max(round(state_bytes / 12 / width**2), 1)
    parts = Parts(torch.device(device))
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False, device=device) for _ in range(layers)))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=device != "cpu")
    parts.add("model", model)
    parts.add("optimizer", optimizer)
    batch = torch.randn(64, width, device=device)

    def step() -> None:
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()

    step()
    return Trained(parts, step)


def blocking(device: str, sizes: list[float], rounds: int) -> None:
    rows = []
    for size in sizes:
        found, times = blocking_times(device, size * GB, rounds)
        middle = {name: statistics.median(taken) for name, taken in times.items()}
        rows.append([
            f"{found / GB:.2f} GB", f"{middle['synchronous']:.3f} s", f"{middle['blocking'] * 1e3:.1f} ms",
            f"{max(times['blocking']) * 1e3:.1f} ms", f"{middle['synchronous'] / middle['blocking']:.0f}x",
            f"{middle['step']:.3f} s", f"{middle['step and save']:.3f} s", f"{middle['whole']:.2f} s",
        ])  # fmt: skip
    columns = ["state", "synchronous", "ours", "worst", "ratio", "a step", "with a save", "ours, verified after"]
    show(f"Training stands still for a checkpoint ({device}), medians of {rounds}", columns, rows)


def blocking_times(device: str, state_bytes: float, rounds: int) -> tuple[int, dict[str, list[float]]]:
    from penstock.runtime.checkpoints.checkpoint import Checkpoints, Saved

    subject = trained(device, state_bytes)
    times: dict[str, list[float]] = {name: [] for name in ("synchronous", "blocking", "step", "step and save", "whole")}
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        files = Checkpoints(Path(folder) / "ours", keep=1, arena_bytes=int(1.2 * subject.bytes))
        subject.parts.call_before_updates(files.hold)
        files.prepare(subject.parts.capture(0))
        for number in range(rounds):
            with timed(times["synchronous"]):
                settled(device)
                save_plainly(subject.parts.capture(number).tensors, Path(folder) / "plain.pt")
            (Path(folder) / "plain.pt").unlink()
            with timed(times["step"]):
                subject.step()
                settled(device)
            with timed(times["whole"]):
                with timed(times["step and save"]):
                    files.begin(subject.parts.capture(number))
                    subject.step()
                    settled(device)
                saved = files.settle()
            assert isinstance(saved, Saved), saved
            times["blocking"].append(saved.blocking_s)
    return subject.bytes, times


def save_plainly(tensors: dict[str, Any], path: Path) -> None:
    import torch

    with path.open("wb") as file:
        torch.save(tensors, file)
        os.fsync(file.fileno())


def settled(device: str) -> None:
    """Training is through with what it was told to do; a snapshot on its way to the host may still be under way."""
    import torch

    if device != "cpu":
        torch.cuda.current_stream().synchronize()


# --- a lost worker ------------------------------------------------------------------------------------------------


def worker(hidden: int, *, memory: bool) -> None:
    """One of the workers of :func:`recovery`, as a machine of its own."""
    import torch
    from torch import nn

    import penstock.elastic as elastic

    torch.set_num_threads(1)
    name = os.environ["PENSTOCK_WORKER"]
    own = f"{os.environ['PENSTOCK_MEMORY_DIR']}/{name}" if memory else ""
    run = elastic.init(checkpoint_steps=SAVE_STEPS, memory_dir=own, memory_steps=1)
    layers = [nn.Linear(hidden, hidden) for _ in range(8)]
    model = run.wrap(nn.Sequential(nn.ModuleList(layers)[0], *layers[1:]), strategy="fsdp2", blocks=(nn.Linear,))
    optimizer = torch.optim.AdamW(model.parameters())
    run.attach(optimizer=optimizer)
    data = torch.randn(512, hidden, generator=torch.Generator().manual_seed(1))
    for step in run.steps((data,), global_batch=64, steps=10_000):
        with step as (x,):
            if name == LOST and step.number == LOST_AT and run.generation == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            step.backward(model(x).square().mean())
            optimizer.step()
            optimizer.zero_grad()
        if run.is_main:
            said = {"step": step.number, "generation": run.generation, "lost": step.lost, "at": time.monotonic()}
            print(json.dumps(said), flush=True)


def hidden_of(state_bytes: float) -> int:
    """How wide a model of eight layers is whose weights and moments take so many bytes."""
    return int((state_bytes / 8 / 12) ** 0.5)


@dataclass(frozen=True, slots=True)
class Loss:
    """What a lost worker cost: seconds from the last step to the new world, and until it was noticed; steps again."""

    pause_s: float
    noticed_s: float
    again: int

    @property
    def way_back_s(self) -> float:
        return self.pause_s - self.noticed_s


def recovery(hidden: int, rounds: int) -> None:
    size = 8 * hidden * (hidden + 1) * 12
    rows = []
    for label, memory in (("peers' memory", True), ("the disk", False)):
        found = [lost_worker(hidden, memory=memory) for _ in range(rounds)]
        times = [[loss.pause_s for loss in found], [loss.way_back_s for loss in found]]
        middles, worst = [f"{statistics.median(of):.2f} s" for of in times], [f"{max(of):.2f} s" for of in times]
        rows.append([label, *middles, *worst, f"{max(loss.again for loss in found)}"])
    columns = ["state comes from", "stands still", "once noticed", "worst", "worst once noticed", "steps done again"]
    title = f"One of {WORKERS} FSDP2 workers is lost with its machine; {size / 1e6:.0f} MB of state, {rounds} times"
    show(title, columns, rows)


def lost_worker(hidden: int, *, memory: bool) -> Loss:
    """Lose a worker with its machine."""
    from penstock.backends import LocalBackend, fake_devices
    from penstock.core import Launch, ReportKind, Worker

    command = [sys.executable, str(Path(__file__).resolve()), "--worker", "--hidden", str(hidden)]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as state:
        backend = LocalBackend(state, fake_devices(WORKERS))
        members = tuple(Worker(id=f"w{rank}", rank=rank, node="local", slot=rank) for rank in range(WORKERS))
        backend.launch(
            Launch(
                run_id="bench.1", job_id="bench", command=(*command, *(["--memory"] if memory else [])),
                workers=members, env=(("OMP_NUM_THREADS", "1"), ("PYTHONPATH", os.pathsep.join(sys.path))),
                working_dir=state,
            )
        )  # fmt: skip
        try:

            def resized() -> float | None:
                found = [one for one in backend.reports("bench.1", 0) if one.kind is ReportKind.RESIZED]
                return next((one.pause_s for one in found if one.pause_s is not None), None)

            pause = wait_for(resized, _PATIENCE_S)
            time.sleep(1.0)
            return _loss(pause, backend.logs("bench.1", None, 0, 1 << 24)[0].decode())
        finally:
            backend.stop("bench.1", 0.0)
            wait_for(lambda: not any(one.alive for one in backend.runs()))
            backend.forget("bench.1")


def _loss(pause_s: float, output: str) -> Loss:
    said = [json.loads(line[line.index("{") :]) for line in output.splitlines() if '"generation"' in line]
    before = [one for one in said if one["generation"] == 0]
    last = max((one for one in before if not one["lost"]), key=lambda one: one["step"])
    noticed = next(one["at"] for one in before if one["lost"])
    after = min(one["step"] for one in said if one["generation"] == 1 and not one["lost"])
    return Loss(pause_s, noticed - last["at"], max(last["step"] + 1 - after, 0))


# --- a GPU --------------------------------------------------------------------------------------------------------


def gpu(sizes: list[float], rounds: int) -> None:
    import torch

    from penstock.runtime.checkpoints.device_stage import DeviceStage

    rows = []
    for size in sizes:
        into, out = device_speeds(int(size * GB), rounds)
        held = [f"{1e3 * held_up(int(size * GB), rounds, stage):.2f} ms" for stage in (None, DeviceStage(lambda _: 0))]
        rows.append([f"{size:g} GB", f"{into:.1f} GB/s", f"{out:.1f} GB/s", *held])
    name = torch.cuda.get_device_name()
    show(
        f"{name}: from the device into the arena, best of {rounds}",
        ["state", "pinned arena", "arena in /dev/shm", "may change after, staged", "not staged"],
        rows,
    )
    blocking("cuda", sizes, rounds)


def device_speeds(size: int, rounds: int) -> tuple[float, float]:
    """Bytes per nanosecond of whole snapshots into an arena of the process, and into one that outlives it."""
    import torch

    from penstock.runtime.checkpoints.memory.shards import MemoryDirectory
    from penstock.runtime.checkpoints.staging import Arena

    tensors = {str(index): torch.randn(size // 4 // 16, device="cuda") for index in range(16)}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        found = []
        for files in (None, MemoryDirectory(Path(folder) / "arena").slots("bench", 0)):
            arena = Arena()
            arena.settle_in(files)
            arena.reserve(tensors)
            found.append(max(_speed(arena, tensors) for _ in range(rounds)))
            arena.settle_in(None)
    return found[0], found[1]


def _speed(arena: Any, tensors: dict[str, Any]) -> float:
    import torch

    torch.cuda.synchronize()
    started = time.perf_counter()
    copy = arena.begin(tensors, frozenset(tensors))
    copy.finish()
    taken = time.perf_counter() - started
    arena.release(copy.slot)
    assert all(torch.equal(copy.tensors[key][:8], tensor[:8].cpu()) for key, tensor in tensors.items())
    return float(copy.layout.bytes / taken / GB)


def held_up(size: int, rounds: int, stage: Any) -> float:
    """Seconds that the device lets an optimizer wait, the best of some: with room on the device, or without."""
    import torch

    from penstock.runtime.checkpoints.staging import Arena

    tensors = {str(index): torch.randn(size // 4 // 16, device="cuda") for index in range(16)}
    arena, found = Arena(2 * size, stage), []
    arena.reserve(tensors)
    for _ in range(rounds + 1):
        torch.cuda.synchronize()
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        began.record()
        copy = arena.begin(tensors, frozenset(tensors))
        assert copy is not None
        copy.wait()
        ended.record()
        for tensor in tensors.values():
            tensor.add_(1)
        copy.finish()
        torch.cuda.synchronize()
        assert all(torch.equal(copy.tensors[key].to("cuda") + 1, tensor) for key, tensor in tensors.items())
        found.append(began.elapsed_time(ended) / 1e3)
        arena.release(copy.slot)
    return float(min(found[1:]))


# --- tools --------------------------------------------------------------------------------------------------------


def show(title: str, columns: list[str], rows: list[list[str]]) -> None:
    widths = [max(len(row[index]) for row in [columns, *rows]) for index in range(len(columns))]
    print(f"\n{title}")
    for row in [columns, *rows]:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)), flush=True)


if __name__ == "__main__":
    main()
