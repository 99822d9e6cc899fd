"""How well the models of links and of power fit public measurements.

``python -m bench.hardware`` fits links to vTrain's all-reduce table (every second size, tested on the others) and
checks the power-limit model on Zeus's training runs: from one run at the highest limit it predicts power and time at
every lower one.
"""

import csv
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from bench.link_fitting import AllReduceTime, fitted_link
from penstock.network import Link, allreduce_s
from penstock.predict.hardware import Chip, capped_power_w, demand_w, device_named, slowdown

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
Run = dict[str, str]


def main() -> None:
    if not (DATA / "vtrain").is_dir():
        print(f"skipped: the public tables are not at {DATA.parent.name}/{DATA.name} beside the repository")
        sys.exit(0)
    links()
    power()


def links() -> None:
    times = defaultdict(list)
    for row in _rows(DATA / "vtrain" / "allreduce_lut.csv"):
        times[row["gpu"]].append(
            AllReduceTime(
                size_bytes=float(row["bytes"]), devices=int(row["num_gpus"]), seconds=float(row["time_ns"]) / 1e9
            )
        )
    print("all-reduce, 2 to 8 devices, 1 to 1024 MB: fitted to odd sizes, tested on even ones; and what ships")
    print(
        f"{'link':<9} {'start us':>8} {'hop us':>7} {'GB/s':>6} {'ramp ns':>8} {'MAPE':>6} {'worst':>6}"
        f" {'shipped':>8}  shares"
    )
    for gpu, shipped, by_count in (("a100", "nvlink3", False), ("v100", "nvlink2", True)):
        link = fitted_link(gpu, times[gpu][::2], shares=by_count)
        off, own = _errors(times[gpu][1::2], link), _errors(times[gpu][1::2], shipped)
        shares = " ".join(f"{count}:{share:.3f}" for count, share in link.share_by_devices.items())
        print(
            f"{shipped:<9} {1e6 * link.start_s:>8.2f} {1e6 * link.hop_s:>7.2f} {link.bandwidth / 1e9:>6.1f}"
            f" {1e9 * link.ramp_s:>8.2f} {off.mean():>6.1%} {off.max():>6.1%} {own.mean():>8.1%}  {shares}"
        )


def _errors(times: Sequence[AllReduceTime], link: str | Link) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    found = np.array([allreduce_s(time.size_bytes, time.devices, link) for time in times])
    return np.asarray(np.abs(found / np.array([time.seconds for time in times]) - 1))


def power() -> None:
    print("\naverage power and time under a limit, predicted from the run at the highest limit (Zeus)")
    print(
        f"{'device':<9} {'runs':>5} {'power MAPE':>11} {'bias':>6} {'naive':>6} {'time MAPE':>10} {'no slow-down':>13}"
    )
    for name in ("v100", "p100", "a40", "rtx6000"):
        watts, seconds, plain_watts, plain_seconds = _power_errors(device_named(name), name)
        print(
            f"{name:<9} {len(watts):>5} {np.abs(watts).mean():>11.1%} {watts.mean():>6.1%}"
            f" {np.abs(plain_watts).mean():>6.1%} {np.abs(seconds).mean():>10.1%} {np.abs(plain_seconds).mean():>13.1%}"
        )
    print("naive: the smaller of the unlimited power and the limit; no slow-down: the time at the highest limit")


def _power_errors(chip: Chip, name: str) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], ...]:
    settings: dict[tuple[str, ...], list[Run]] = defaultdict(list)
    for row in _rows(DATA / "zeus-power" / f"summary_power_{name}.csv"):
        settings[tuple(row[key] for key in ("dataset", "network", "batch_size", "optimizer"))].append(row)
    errors = [each for runs in settings.values() for each in _below_the_highest(chip, runs)]
    return tuple(np.array(column) for column in zip(*errors, strict=True))


def _below_the_highest(chip: Chip, runs: Sequence[Run]) -> Iterable[tuple[float, float, float, float]]:
    top = max(runs, key=lambda run: float(run["power_limit"]))
    highest, drawn, base = (float(top[key]) for key in ("power_limit", "average_power", "time_per_epoch"))
    wanted = demand_w(drawn, highest)
    for run in runs:
        limit, watts, seconds = (float(run[key]) for key in ("power_limit", "average_power", "time_per_epoch"))
        if limit < highest:
            stretch = slowdown(wanted, limit, chip, 1.0) / slowdown(wanted, highest, chip, 1.0)
            yield (
                capped_power_w(wanted, limit) / watts - 1,
                base * stretch / seconds - 1,
                min(drawn, limit) / watts - 1,
                base / seconds - 1,
            )


def _rows(path: Path) -> list[Run]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main()
