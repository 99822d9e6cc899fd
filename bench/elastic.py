"""What elasticity costs: pauses of resizes, overhead of the loop, and how long a checkpoint holds training up.

``python -m bench.elastic`` trains a small transformer-like network on this machine's CPU and prints three tables:

* the pause of the resizes 1 -> 2 -> 4 -> 2 in place, beside the same under torchrun, where a resize is a restart;
* the time of a step in the elastic loop and in a plain DDP loop, taken in turns in the same processes;
* the blocking part of an asynchronous checkpoint and a synchronous one of the same state.

``--resizes``, ``--overhead`` or ``--checkpoints`` picks one. The file is also the script of the workers it measures.
"""

import itertools
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WIDTHS = (1, 2, 4, 2)
ROUNDS = 3
BATCH = 48
PASSES = 200
SAVES = 6


def main() -> None:
    chosen = [argument for argument in sys.argv[1:] if argument.startswith("--")]
    if "--elastic-worker" in chosen:
        elastic_worker()
    elif "--plain-worker" in chosen:
        plain_worker()
    elif "--overhead-worker" in chosen:
        overhead_worker()
    else:
        for name, bench in (("--resizes", resizes), ("--overhead", overhead), ("--checkpoints", checkpoints)):
            if not chosen or name in chosen:
                bench()


# --- what is trained ----------------------------------------------------------------------------------------------


def network(width: int = 192, depth: int = 6) -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    layer = [
        module for _ in range(depth) for module in (nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
    ]
    return nn.Sequential(*layer, nn.Linear(width, 1))


def samples(width: int = 192, count: int = 4096) -> tuple[Any, Any]:
    import torch

    x = torch.randn(count, width, generator=torch.Generator().manual_seed(1))
    return x, x.square().mean(1, keepdim=True)


def elastic_worker() -> None:
    import torch
    from torch import nn

    import penstock.elastic as elastic

    run = elastic.init()
    model = run.wrap(network())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    run.attach(optimizer=optimizer)
    for step in run.steps(samples(), global_batch=BATCH, steps=1_000_000):
        with step as (x, y):
            step.backward(nn.functional.mse_loss(model(x), y))
            optimizer.step()
            optimizer.zero_grad()


def plain_worker() -> None:
    """The same training under torchrun: it saves when asked to leave and goes on from there."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    net = network()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    checkpoint = Path(os.environ["CHECKPOINT"])
    first = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
    model = DistributedDataParallel(net)
    x, y = samples()
    leaving = torch.zeros(1)
    signal.signal(signal.SIGTERM, lambda *_: leaving.fill_(1))
    for step in range(first, 1_000_000):
        began = time.time()
        chosen = torch.arange(step * BATCH, (step + 1) * BATCH)[rank::size] % len(x)
        nn.functional.mse_loss(model(x[chosen]), y[chosen]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        everyone = leaving.clone()
        dist.all_reduce(everyone)
        if rank == 0:
            print(json.dumps({"step": step, "began": began, "ended": time.time()}), flush=True)
        if everyone.item():
            if rank == 0:
                torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}, checkpoint)
            break
    dist.destroy_process_group()


# --- resizes ------------------------------------------------------------------------------------------------------


def resizes() -> None:
    in_place = [pause for _ in range(ROUNDS) for pause in elastic_pauses()]
    restart = list(torchrun_pauses())
    rows = []
    for before, after in itertools.pairwise(WIDTHS):
        ours = [pause for change, pause in in_place if change == (before, after)]
        theirs = [pause for change, pause in restart if change == (before, after)]
        rows.append([f"{before} -> {after}", spread(ours), spread(theirs)])
    everything = statistics.median(pause for _, pause in in_place), statistics.median(pause for _, pause in restart)
    rows.append(
        ["median of all", f"{everything[0]:.3f} s", f"{everything[1]:.2f} s = {everything[1] / everything[0]:.0f}x"]
    )
    show(
        "Pause of a resize: from the end of the last step before to the start of the first after",
        ["workers", "in place", "torchrun restart"],
        rows,
    )


def elastic_pauses() -> Iterator[tuple[tuple[int, int], float]]:
    """The local backend with its agent and zygote; the pause is the one workers report to the server."""
    from penstock.backends import LocalBackend, fake_devices
    from penstock.core import Launch, ReportKind, Worker

    def workers(width: int) -> tuple[Worker, ...]:
        return tuple(Worker(id=f"w{rank}", rank=rank, device=rank) for rank in range(width))

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as state:
        backend = LocalBackend(state, fake_devices(4))
        launch = Launch(
            run_id="bench",
            job_id="bench",
            command=(sys.executable, str(Path(__file__).resolve()), "--elastic-worker"),
            workers=workers(WIDTHS[0]),
            env=(("OMP_NUM_THREADS", "1"),),
            working_dir=state,
        )
        backend.launch(launch)
        try:
            wait_for(lambda: any(one.kind is ReportKind.PROGRESS for one in backend.reports("bench", 0)))
            for generation, (before, after) in enumerate(itertools.pairwise(WIDTHS), start=1):
                backend.resize("bench", workers(after), generation)

                def resized(wanted: int = generation) -> float | None:
                    found = [one for one in backend.reports("bench", 0) if one.kind is ReportKind.RESIZED]
                    return next((one.pause_s for one in found if one.generation == wanted), None)

                yield (before, after), wait_for(resized)
        finally:
            backend.stop("bench", 0.0)
            wait_for(lambda: not any(one.alive for one in backend.runs()))


def torchrun_pauses() -> Iterator[tuple[tuple[int, int], float]]:
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "CHECKPOINT": f"{folder}/last.pt", "OMP_NUM_THREADS": "1"}
        last = 0.0
        for before, width in zip((0, *WIDTHS), WIDTHS, strict=False):
            first, ended = torchrun_once(width, env)
            if before:
                yield (before, width), first - last
            last = ended


def torchrun_once(width: int, env: dict[str, str]) -> tuple[float, float]:
    """Train a while in one width; when the first step began and when the last one ended."""
    argv = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={width}", __file__, "--plain-worker"]
    with subprocess.Popen(
        [sys.executable, *argv], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        steps = [json.loads(process.stdout.readline()) for _ in range(30)]
        process.send_signal(signal.SIGTERM)
        steps += [json.loads(line) for line in process.stdout]
    return steps[0]["began"], steps[-1]["ended"]


# --- overhead -----------------------------------------------------------------------------------------------------


def overhead() -> None:
    """Two workers under torchrun: neither loop has an agent to talk to, both have a peer to wait for."""
    argv = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", __file__, "--overhead-worker"]
    output = subprocess.run(
        [sys.executable, *argv],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    rows = []
    for line in output.splitlines():
        found = json.loads(line)
        plain, elastic = found["plain"], found["elastic"]
        rows.append(
            [found["name"], *(f"{statistics.median(wall for wall, _ in one) * 1e3:.1f} ms" for one in (plain, elastic))]
        )
        for clock in range(2):
            ratios = [one[clock] / other[clock] for one, other in zip(elastic, plain, strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            rows[-1].append(f"{middle - 1:+.1%} ({low - 1:+.0%} to {high - 1:+.0%})")
    columns = ["step", "plain DDP", "elastic", "overhead, wall clock", "overhead, processor time"]
    show("Time of a step, 2 workers, in turns in the same processes; median (quartiles) over pairs", columns, rows)


def overhead_worker() -> None:
    """Every pass makes one elastic and one plain step; which comes first changes from pass to pass."""
    import torch
    import torch.distributed as dist

    import penstock.elastic as elastic

    run = elastic.init()
    model = run.wrap(network(384, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    run.attach(optimizer=optimizer)
    data = samples(384)
    steps = run.steps(data, global_batch=256, steps=PASSES + 1)
    elastic_step(next(steps), model, optimizer)
    plain = plain_stepper(data)
    bodies: dict[str, Callable[[int], None]] = {
        "elastic": lambda _: elastic_step(next(steps), model, optimizer),
        "plain": plain,
    }
    times: dict[str, list[tuple[float, float]]] = {"elastic": [], "plain": []}
    for turn in range(PASSES):
        for kind in ("elastic", "plain") if turn % 2 else ("plain", "elastic"):
            dist.barrier()
            started, worked = time.perf_counter(), time.process_time()
            bodies[kind](turn)
            times[kind].append((time.perf_counter() - started, time.process_time() - worked))
    if run.is_main:
        name = f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f}M parameters"
        print(json.dumps({"name": name, **{kind: taken[PASSES // 10 :] for kind, taken in times.items()}}), flush=True)


def elastic_step(step: Any, model: Any, optimizer: Any) -> None:
    from torch import nn

    with step as (x, y):
        step.backward(nn.functional.mse_loss(model(x), y))
        optimizer.step()
        optimizer.zero_grad()


def plain_stepper(data: tuple[Any, Any]) -> Callable[[int], None]:
    """The plain loop's body on a model of its own, in the same process group."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    rank, size = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(network(384, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    order = torch.randperm(len(data[0]), generator=torch.Generator().manual_seed(0))

    def step(number: int) -> None:
        start = number * 256 % len(order)
        chosen = order[start : start + 256][rank::size]
        loss = nn.functional.mse_loss(model(data[0][chosen]), data[1][chosen])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        loss.item()

    return step


# --- checkpoints --------------------------------------------------------------------------------------------------


def checkpoints() -> None:
    rows = []
    for width, depth in ((512, 4), (1024, 4), (1024, 8)):
        size, synchronous, blocking, whole = checkpoint_times(width, depth)
        ours, theirs = statistics.median(blocking[1:]), statistics.median(synchronous)
        until_whole = statistics.median(whole)
        rows.append(
            [
                f"{size / 1e6:.0f} MB", f"{theirs:.3f} s", f"{blocking[0]:.3f} s", f"{ours:.3f} s",
                f"{theirs / ours:.1f}x", f"{until_whole:.3f} s",
            ]
        )  # fmt: skip
    columns = ["state", "synchronous", "ours, first", "ours, blocking", "ratio", "ours, until whole"]
    show("Checkpoints: how long training stands still", columns, rows)


def checkpoint_times(width: int, depth: int) -> tuple[int, list[float], list[float], list[float]]:
    """Bytes of the state; seconds of synchronous saves, of our blocking parts, and until ours were whole, in turns."""
    import torch
    from torch.distributed.checkpoint.state_dict_saver import save

    from penstock.elastic import Checkpoints
    from penstock.runtime.state import Parts

    parts = Parts(torch.device("cpu"))
    parts.add("model", model := network(width, depth))
    parts.add("optimizer", optimizer := torch.optim.AdamW(model.parameters()))
    model(torch.randn(4, width)).sum().backward()
    optimizer.step()
    synchronous: list[float] = []
    blocking: list[float] = []
    whole: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        files = Checkpoints(Path(folder) / "ours")
        files.prepare(parts.capture(0))
        for number in range(SAVES):
            with timed(synchronous):
                save(parts.capture(number).tensors, checkpoint_id=f"{folder}/sync-{number}", no_dist=True)
            shutil.rmtree(f"{folder}/sync-{number}")
            with timed(whole):
                with timed(blocking):
                    files.begin(parts.capture(number))
                files.settle()
    size = sum(tensor.nbytes for tensor in parts.capture(0).tensors.values())
    return size, synchronous, blocking, whole


# --- tools --------------------------------------------------------------------------------------------------------


def wait_for(condition: Callable[[], Any], deadline_s: float = 120.0) -> Any:
    deadline = time.monotonic() + deadline_s
    while (found := condition()) is None or found is False:
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing happened within {deadline_s:g} s")
        time.sleep(0.01)
    return found


@contextmanager
def timed(times: list[float]) -> Iterator[None]:
    started = time.perf_counter()
    yield
    times.append(time.perf_counter() - started)


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} s ({min(values):.3f} to {max(values):.3f}, n={len(values)})"


def show(title: str, columns: list[str], rows: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
