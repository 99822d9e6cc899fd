"""The evaluation of one checkpoint on many data sets, beside one job for each of them.

`python -m bench.evaluation [--seeds 20] [--without-real] [--slots 1 2] [--rounds 1 4]`

**Simulated**: a stated synthetic stand-in for the 63 data sets of Acme (NSDI'24, section 4), whose table is not
published: inference times are log-normal (sigma 1), a third of the data sets has a metric step on the processor, and
over all trials loading the model takes 30 % of the time that a trial holds its device and the metric step 19 %, the
shares that the paper names for a coding benchmark. One job for each data set loads the model, evaluates and computes
the metric on its device, in the order of submission. Ours is ``penstock.evaluation.pack`` with the same times: the
model is loaded once for each node and read from its memory by the others (a tenth of the time), metric steps run on the
processor, data sets are split. Loads never slow each other down here, which favours the jobs.

**Real**: twelve data sets on a transformer of 60 million parameters, real processes on one or two slots of a real
server of this machine. A slot stands for a device. On two cores, one slot leaves a core for metric steps, as an
accelerator leaves its host's; with two slots the metric steps take their time from the model. ``--rounds`` computes
each metric so many times over: 4 stands for benchmarks whose metric runs programs.

**Device time held** is that of grants: of all single jobs together, and of the evaluation until it gave its devices
back. ``until all is done`` is what the same evaluation would have held if its devices had waited for its metrics.
"""

import argparse
import tempfile
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from bench import evaluated_model
from penstock.client import Client, DataDir, ensure_server
from penstock.evaluation import SetTime, Shard, pack
from penstock.runtime import play
from penstock.wire import EvaluationView, JobDetail

SETS, PER_NODE, PROCESSORS = 63, 8, 128
LOAD_SHARE, METRIC_SHARE, FROM_MEMORY = 0.30, 0.19, 0.1
MEAN_TRIAL_S = 300.0
_LIMIT_S, _LOOK_EVERY_S = 1200.0, 0.2
_SCRIPT = Path(evaluated_model.__file__)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--without-real", action="store_true")
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, nargs="+", default=[1, 4])
    asked = parser.parse_args()
    console = Console(width=140)
    console.print(_simulated(asked.seeds))
    console.print(_simulated_holds(asked.seeds))
    if not asked.without_real:
        console.print(_real(asked.slots, asked.rounds))


def acme_sets(seed: int) -> tuple[list[SetTime], float]:
    """The stand-in for Acme's data sets, and how long one load of the model takes."""
    rng = np.random.default_rng(seed)
    total = MEAN_TRIAL_S * SETS
    device = rng.lognormal(0.0, 1.0, SETS)
    device *= (1.0 - LOAD_SHARE - METRIC_SHARE) * total / device.sum()
    metric = np.where(np.arange(SETS) % 3 == 0, rng.lognormal(0.0, 0.5, SETS), 0.0)
    metric *= METRIC_SHARE * total / metric.sum()
    sets = [
        SetTime(name=f"set-{number}", device_s=float(device[number]), metric_s=float(metric[number]), samples=10_000)
        for number in range(SETS)
    ]
    return sets, LOAD_SHARE * total / SETS


def _simulated(seeds: int) -> Table:
    table = Table(
        "nodes", "devices", "one job each", "model loaded once", "metrics apart", "packed", "metrics split", "bound",
        "shorter by",
        title=f"makespan in seconds, medians of {seeds} draws (least and most)",
    )  # fmt: skip
    for nodes in (1, 4):
        rows = np.array([_makespans(*acme_sets(seed), nodes) for seed in range(seeds)])
        ratios = rows[:, 0] / rows[:, 4]
        cells = [f"{median:.0f}" for median in np.median(rows, axis=0)]
        ratio = f"{np.median(ratios):.2f}x ({ratios.min():.2f} to {ratios.max():.2f})"
        table.add_row(str(nodes), str(nodes * PER_NODE), *cells, ratio)
    return table


def _simulated_holds(seeds: int) -> Table:
    table = Table(
        "nodes", "devices", "one job each", "packed, until all is done", "packed, given back", "less by",
        title=f"device-hours held, medians of {seeds} draws (least and most)",
    )  # fmt: skip
    for nodes in (1, 4):
        rows = np.array([_held(*acme_sets(seed), nodes) for seed in range(seeds)]) / 3600.0
        saved = 1.0 - rows[:, 2] / rows[:, 1]
        cells = [f"{median:.2f}" for median in np.median(rows, axis=0)]
        share = f"{np.median(saved):.0%} ({saved.min():.0%} to {saved.max():.0%})"
        table.add_row(str(nodes), str(nodes * PER_NODE), *cells, share)
    return table


def _held(sets: list[SetTime], load_s: float, nodes: int) -> list[float]:
    """Device-seconds: every device of an evaluation is held until the last one of them is done, or the last metric."""
    devices, once_s = nodes * PER_NODE, (1 + FROM_MEMORY) * load_s
    alone = sum(load_s + one.device_s + one.metric_s for one in sets)
    packed = pack(sets, devices, load_s=once_s, processors=nodes * PROCESSORS)
    return [alone, devices * packed.makespan_s, devices * play(packed.shards, {}, devices, load_s=once_s)]


def _makespans(sets: list[SetTime], load_s: float, nodes: int) -> list[float]:
    devices, once_s = nodes * PER_NODE, (1 + FROM_MEMORY) * load_s
    tails = {each.name: each.metric_s for each in sets}
    each_alone = [Shard(set=one.name, device_s=load_s + one.device_s + one.metric_s) for one in sets]
    loaded_once = [Shard(set=one.name, device_s=one.device_s + one.metric_s) for one in sets]
    apart = [Shard(set=one.name, device_s=one.device_s) for one in sets]
    packed = pack(sets, devices, load_s=once_s, processors=nodes * PROCESSORS)
    split = pack([replace(each, by_shard=True) for each in sets], devices, load_s=once_s, processors=nodes * PROCESSORS)
    return [
        play(each_alone, {}, devices),
        play(loaded_once, {}, devices, load_s=once_s),
        play(apart, tails, devices, load_s=once_s, processors=nodes * PROCESSORS),
        packed.makespan_s,
        split.makespan_s,
        split.bound_s,
    ]


class Measured(NamedTuple):
    """Makespans of one job for each data set and of two checkpoints that are evaluated, in seconds, and device-seconds
    held: by all the jobs, by the second evaluation if it had waited for its metrics, and as it was."""

    before: float
    first: float
    second: float
    held_before: float
    held_waiting: float
    held: float


def _real(all_slots: list[int], all_rounds: list[int]) -> Table:
    table = Table(
        "slots", "metric", "one job each", "evaluate:, first", "the next one", "shorter by",
        "device time held: one job each", "until all is done", "given back", "less by",
        title=f"{len(evaluated_model.SETS)} data sets, seconds; {psutil.cpu_count()} cores, load"
        f" {psutil.getloadavg()[0]:.1f} before",
    )  # fmt: skip
    for rounds, slots in product(all_rounds, all_slots):
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            data = Path(folder) / "data"
            client = ensure_server(data, options=["--slots", str(slots + 1)], within_s=120.0)
            try:
                found = _measured(client, Path(folder), slots, rounds)
            finally:
                client.close()
                _end(data)
        cells = [f"{value:.1f}" for value in found]
        shorter, less = f"{found.before / found.second:.2f}x", f"{1.0 - found.held / found.held_waiting:.0%}"
        table.add_row(str(slots), f"{rounds}x", *cells[:3], shorter, *cells[3:], less)
    table.caption = f"load {psutil.getloadavg()[0]:.1f} after"
    return table


def _measured(client: Client, folder: Path, slots: int, rounds: int) -> Measured:
    """The job that trains has a slot to itself all the time and waits to be told when to save."""
    asked = {**_EVALUATE, "metric": ["python", str(_SCRIPT), "score", str(rounds)], "devices": slots}
    trained = client.submit(_job(folder, "train", str(folder), evaluate=asked, work=2)).job.id
    _until(lambda: client.job(trained).state == "running")
    import torch

    torch.save(evaluated_model.model().state_dict(), folder / "weights.pt")
    weights = str(folder / "weights.pt")
    single = [client.submit(_job(folder, "single", name, weights, str(rounds))).job.id for name in evaluated_model.SETS]
    _until(lambda: all(client.job(job).state == "finished" for job in single))
    views = [client.job(job) for job in single]
    before = max(_seconds(view.ended_at) for view in views) - min(_seconds(view.submitted_at) for view in views)
    found = {name: client.metrics(job)["distance"].last for job, name in zip(single, evaluated_model.SETS, strict=True)}
    for step in (1, 2):
        (folder / f"step-{step}").touch()
        while len(_over(client, trained)) < step:
            time.sleep(_LOOK_EVERY_S)
    evaluations = _over(client, trained)
    for each in evaluations:
        _must_agree(each, found)
    first, second = (_seconds(each.ended_at) - _seconds(each.submitted_at) for each in evaluations)
    last = client.job(evaluations[-1].job_id)
    return Measured(
        before=before, first=first, second=second, held_before=sum(map(_device_seconds, views)),
        held_waiting=_device_seconds(last, until=_seconds(last.ended_at)), held=_device_seconds(last),
    )  # fmt: skip


def _device_seconds(job: JobDetail, until: float | None = None) -> float:
    """What a job held; ``until`` is when its last devices would have been given back."""
    ends = [_seconds(stint.until) for stint in job.history]
    if until is not None:
        ends[-1] = until
    return sum(len(one.devices) * (end - _seconds(one.since)) for one, end in zip(job.history, ends, strict=True))


def _must_agree(evaluation: EvaluationView, found: dict[str, float]) -> None:
    """Both ways find the same, or nothing that was measured means anything."""
    told = {name.partition("/")[0]: value for name, value in evaluation.results.items()}
    if evaluation.state != "finished" or told.keys() != found.keys():
        raise RuntimeError(f"step {evaluation.step} is {evaluation.state}: {evaluation.reason}")
    for name, value in found.items():
        if abs(told[name] - value) > 1e-9:
            raise RuntimeError(f"{name} is {told[name]} here and {value} there")


_EVALUATE = {
    "command": ["python", str(_SCRIPT), "evaluate"], "sets": evaluated_model.SETS, "priority": 50,
}  # fmt: skip


def _over(client: Client, job: str) -> list[EvaluationView]:
    return [each for each in client.evaluations(job).evaluations if each.ended_at is not None]


def _job(folder: Path, *words: str, work: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "name": words[0], "command": ["python", str(_SCRIPT), *words], "work": work, "devices": 1, "profile": "never",
        "environment": {"working_dir": str(folder)}, **more,
    }  # fmt: skip


def _until(is_so: Any) -> None:
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > _LIMIT_S:
            raise TimeoutError(f"not within {_LIMIT_S} s")
        time.sleep(_LOOK_EVERY_S)


def _seconds(moment: Any) -> float:
    return float(moment.timestamp())


def _end(data: Path) -> None:
    if (address := DataDir(data).address()) is not None:
        server = psutil.Process(address.pid)
        server.terminate()
        server.wait(60)


if __name__ == "__main__":
    main()
