"""What elasticity costs: pauses of resizes, overhead of the loop, and how long a checkpoint holds training up.

``python -m bench.elastic`` trains a small transformer-like network on this machine's CPU and prints three tables:

* the pause of the resizes 1 -> 2 -> 4 -> 2 in place, beside the same under torchrun, where a resize is a restart;
* what a step of the elastic loop costs beyond one of a plain DDP loop, as paired differences of processor time: the two
  take turns step by step in the same processes, so that whatever else the machine does falls on both alike. A second
  plain loop is the control: what it seems to cost is how far off such a measurement is;
* how long a checkpoint in the background holds training up, beside a synchronous one of the same state.

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
OVERHEADS = ((32, 1, 1500), (192, 6, 400), (384, 6, 150))
"""Width and depth of the networks whose steps are compared, and how many pairs of steps: the shorter, the more."""
WARM_UP = 20
RESAMPLES = 2000
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
        return tuple(Worker(id=f"w{rank}", rank=rank, node="local", slot=rank) for rank in range(width))

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
    rows = [row for sizes in OVERHEADS for row in overhead_rows(*sizes)]
    columns = ["step", "pairs", "clock", "plain DDP", "", "more", "95 % interval", "overhead", "95 % interval"]
    show("A step of a worker, 2 workers: median of paired differences, intervals by bootstrap", columns, rows)


def overhead_rows(width: int, depth: int, pairs: int) -> Iterator[list[str]]:
    argv = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", __file__, "--overhead-worker"]
    output = subprocess.run(
        [sys.executable, *argv, str(width), str(depth), str(pairs)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    found = json.loads(output)
    for (clock, name), kind in itertools.product(enumerate(("processor", "wall")), ("elastic", "control")):
        plain, other = ([one[clock] for one in found[which]] for which in ("plain", kind))
        base = statistics.median(plain)
        extra, low, high = median_difference(other, plain)
        absolute = [f"{extra * 1e3:+.3f} ms", f"{low * 1e3:+.3f} to {high * 1e3:+.3f}"]
        relative = [f"{extra / base:+.2%}", f"{low / base:+.2%} to {high / base:+.2%}"]
        yield [found["name"], str(pairs), name, f"{base * 1e3:.2f} ms", kind, *absolute, *relative]


def median_difference(ours: list[float], theirs: list[float]) -> tuple[float, float, float]:
    """The median of paired differences and its 95 % interval from resampled pairs."""
    import numpy as np

    differences = np.asarray(ours) - np.asarray(theirs)
    chosen = np.random.default_rng(0).integers(0, len(differences), (RESAMPLES, len(differences)))
    low, high = np.percentile(np.median(differences[chosen], axis=1), (2.5, 97.5))
    return float(np.median(differences)), float(low), float(high)


def overhead_worker() -> None:
    """Every pass makes one step of each loop; which comes first changes from pass to pass."""
    width, depth, pairs = (int(argument) for argument in sys.argv[2:5])
    import torch
    import torch.distributed as dist

    import penstock.elastic as elastic

    run = elastic.init()
    model = run.wrap(network(width, depth))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    run.attach(optimizer=optimizer)
    data = samples(width)
    steps = run.steps(data, global_batch=256, steps=pairs + WARM_UP + 1)
    elastic_step(next(steps), model, optimizer)
    bodies: dict[str, Callable[[int], None]] = {
        "elastic": lambda _: elastic_step(next(steps), model, optimizer),
        "plain": plain_stepper(data, network(width, depth)),
        "control": plain_stepper(data, network(width, depth)),
    }
    times: dict[str, list[list[float]]] = {kind: [] for kind in bodies}
    orders = list(itertools.permutations(bodies))
    for turn in range(pairs + WARM_UP):
        for kind in orders[turn % len(orders)]:
            dist.barrier()
            worked, started = time.process_time(), time.perf_counter()
            bodies[kind](turn)
            taken = torch.tensor([time.process_time() - worked, time.perf_counter() - started], dtype=torch.float64)
            dist.all_reduce(taken)
            times[kind].append((taken / run.size).tolist())
    if run.is_main:
        name = f"{sum(p.numel() for p in model.parameters()) / 1e6:.2g}M parameters"
        print(json.dumps({"name": name, **{kind: taken[WARM_UP:] for kind, taken in times.items()}}), flush=True)


def elastic_step(step: Any, model: Any, optimizer: Any) -> None:
    from torch import nn

    with step as (x, y):
        step.backward(nn.functional.mse_loss(model(x), y))
        optimizer.step()
        optimizer.zero_grad()


def plain_stepper(data: tuple[Any, Any], network: Any) -> Callable[[int], None]:
    """The plain loop's body on a model of its own, in the same process group."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    rank, size = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(network)
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
        size, times = checkpoint_times(width, depth)
        middle = {name: statistics.median(taken) for name, taken in times.items()}
        rows.append(
            [
                f"{size / 1e6:.0f} MB", f"{middle['synchronous']:.3f} s",
                f"{middle['blocking'] * 1e3:.1f} ms", f"{max(times['blocking']) * 1e3:.1f} ms",
                f"{middle['synchronous'] / middle['blocking']:.0f}x", f"{middle['plain step']:.3f} s",
                f"{middle['step while copying'] / middle['plain step'] - 1:+.0%}", f"{middle['until whole']:.3f} s",
            ]
        )  # fmt: skip
    columns = [
        "state", "synchronous", "ours, blocking", "worst", "ratio", "a step", "while it copies", "ours, until whole",
    ]  # fmt: skip
    show(f"Checkpoints: how long training stands still, medians of {SAVES}", columns, rows)


def checkpoint_times(width: int, depth: int) -> tuple[int, dict[str, list[float]]]:
    """Bytes of the state, and seconds of synchronous saves and of ours beside training, in turns."""
    import torch
    from torch.distributed.checkpoint.state_dict_saver import save

    from penstock.elastic import Checkpoints
    from penstock.runtime.checkpoints.checkpoint import Saved
    from penstock.runtime.checkpoints.state import Parts

    parts = Parts(torch.device("cpu"))
    parts.add("model", model := network(width, depth))
    parts.add("optimizer", optimizer := torch.optim.AdamW(model.parameters()))
    batch = torch.randn(BATCH, width)

    def train() -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    train()
    names = ("synchronous", "blocking", "plain step", "step while copying", "until whole")
    times: dict[str, list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        files = Checkpoints(Path(folder) / "ours")
        parts.before_update = files.hold
        files.prepare(parts.capture(0))
        for number in range(SAVES):
            with timed(times["synchronous"]):
                save(parts.capture(number).tensors, checkpoint_id=f"{folder}/sync-{number}", no_dist=True)
            shutil.rmtree(f"{folder}/sync-{number}")
            with timed(times["plain step"]):
                train()
            with timed(times["until whole"]):
                with timed(times["step while copying"]):
                    files.begin(parts.capture(number))
                    train()
                saved = files.settle()
            assert isinstance(saved, Saved)
            times["blocking"].append(saved.blocking_s)
    size = sum(tensor.nbytes for tensor in parts.capture(0).tensors.values())
    return size, times


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
