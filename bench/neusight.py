"""The kernel model on NeuSight's public measurements (ASPLOS'25): five operators on eight GPUs, and convolutions.

``python -m bench.neusight`` fits on the training files only. GPUs in them are predicted by a model of their own rows;
the others (A100-80, H100, L4) as ``penstock predict`` does devices nobody profiled: from their data sheets, and the
shares of its rates that kernels reach on the device that ships. Nothing of NeuSight's is learned for those. Beside it:
the roofline, and a line per kernel class in bytes and operations scaled by the device's peaks (after Li et al.,
MICRO'23). NeuSight's own errors are those its repository reports for the same operators. *Strange* is the share of a
GPU's test rows that ran a library kernel none of its training rows ran (for a new GPU: those of no GPU): another
version of the library, of which the training rows say nothing. ``--sample N`` keeps at most N training rows per
operator and GPU; ``--only linear,conv`` runs a part.
"""

import argparse
import csv
import gzip
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.predict.device_profile import REFERENCE, shipped_profile
from penstock.predict.hardware import Chip, Precision, device_named
from penstock.predict.kernels import KernelCall
from penstock.predict.lab.fitting.family_fitting import MeasuredCall
from penstock.predict.lab.fitting.kernel_fitting import fit_kernels

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "neusight"
PUBLISHED = {  # NeuSight's mean error on GPUs it was trained on, and on others
    "bmm": (26.0, 13.8), "linear": (20.0, 13.9), "elem": (14.0, 19.3), "softmax": (19.3, 13.9), "ln": (20.1, 56.7),
}  # fmt: skip
BOARD_POWER = {"A100-PCIE-40GB": 250.0, "A100 80GB PCIe": 300.0, "V100-PCIE": 250.0}
READ = defaultdict(lambda: 1, add=2, mul=2, div=2)
CONV_SPLIT = 0.7
STRANGE = 0.5
"""Share of test rows with kernels unknown to a GPU's training rows from which on it is also counted apart."""
Array = npt.NDArray[np.float64]
Row = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Mean and root mean squared relative errors, in percent."""

    mean: float
    rms: float
    median: float
    bias: float

    @classmethod
    def of(cls, found: Array, truth: Array) -> "Errors":
        off = 100 * (found / truth - 1)
        return cls(
            mean=float(np.abs(off).mean()),
            rms=float(np.sqrt((off**2).mean())),
            median=float(np.median(np.abs(off))),
            bias=float(100 * (found.sum() / truth.sum() - 1)),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--only", default="elem,softmax,ln,linear,bmm,conv")
    chosen = parser.parse_args()
    if not DATA.is_dir():
        print(f"skipped: NeuSight's tables are not at {DATA.parent.name}/{DATA.name} beside the repository")
        sys.exit(0)
    chips = read_chips()
    for name in chosen.only.split(","):
        begin = time.process_time()
        convolutions(chips) if name == "conv" else operator(name, chips, chosen.sample)
        print(f"  ({time.process_time() - begin:.0f} CPU s)", flush=True)


def operator(name: str, chips: Mapping[str, Chip], sample: int) -> None:
    train = measured(name, "train", chips)
    if sample:
        train = {gpu: _some(rows, sample) for gpu, rows in train.items()}
    everything = [(chips[gpu], row) for gpu, rows in train.items() for row in rows]
    tested: dict[bool, list[tuple[Array, ...]]] = {True: [], False: []}
    usual: list[tuple[Array, Array]] = []
    strange = strange_kernels(name)
    print(
        f"\n{name}\n  {'GPU':<24} {'rows':>5} {'ours':>6} {'rms':>6} {'median':>7} {'roofline':>9} {'Li et al.':>10}"
        f" {'strange':>8}"
    )
    for gpu, rows in sorted(measured(name, "test", chips).items()):
        own = train.get(gpu)
        calls, truth = [row.call for row in rows], np.array([row.seconds for row in rows])
        model = (
            fit_kernels(own, chips[gpu]) if own else shipped_profile(REFERENCE).iteration.kernels.carried_to(chips[gpu])
        )
        ours = model.predict(calls).seconds
        told = [(chips[gpu], row) for row in own] if own else everything
        others = roofline(calls, chips[gpu]), lines(told, calls, chips[gpu])
        tested[own is not None].append((truth, ours, *others))
        if own and strange[gpu] < STRANGE:
            usual.append((ours, truth))
        found, roof, line = (Errors.of(each, truth) for each in (ours, *others))
        new = "" if own else " (new)"
        print(
            f"  {gpu + new:<24} {len(rows):>5} {found.mean:>6.1f} {found.rms:>6.1f} {found.median:>7.1f}"
            f" {roof.mean:>9.1f} {line.mean:>10.1f} {strange[gpu]:>8.0%}"
        )
    for known, published in zip((True, False), PUBLISHED[name], strict=True):
        truth, *columns = (np.concatenate(column) for column in zip(*tested[known], strict=True))
        mine, roof, line = (Errors.of(each, truth) for each in columns)
        title = "known GPUs" if known else "new GPUs"
        print(
            f"  {title:<12} ours {mine.mean:.1f} %, NeuSight {published:.1f} %, roofline {roof.mean:.1f} %,"
            f" lines {line.mean:.1f} %{'' if mine.mean < published else '   <- not below NeuSight'}"
        )

    if 0 < len(usual) < len(tested[True]):
        mean = Errors.of(*(np.concatenate(column) for column in zip(*usual, strict=True))).mean
        print(f"  known GPUs whose test rows ran the kernels of their training rows: ours {mean:.1f} %")


def strange_kernels(name: str) -> dict[str, float]:
    """By GPU: how many of its test rows ran a kernel that its training rows (for a new GPU: anybody's) never ran."""
    known: dict[str, set[str]] = defaultdict(set)
    tested: dict[str, list[str]] = defaultdict(list)
    for row in _rows(f"train_{name}"):
        known[row["device"]].add(row["kernel"])
    for row in _rows(f"test_{name}"):
        tested[row["device"]].append(row["kernel"])
    anybody = set().union(*known.values())
    return {gpu: float(np.mean([each not in known.get(gpu, anybody) for each in ran])) for gpu, ran in tested.items()}


def convolutions(chips: Mapping[str, Chip]) -> None:
    """Forward convolutions of odd shapes, 70 % of the shapes for fitting; one GPU at a time."""
    print(
        f"\nconv (shapes held out)\n  {'GPU':<24} {'rows':>5} {'MAPE':>6} {'RMSPE':>6} {'median':>7} {'bias':>6}"
        f" {'inside bar':>11}"
    )
    for gpu, rows in sorted(measured("conv", "", chips).items()):
        order = np.random.default_rng(0).permutation(len(rows))
        cut = int(CONV_SPLIT * len(rows))
        fitted, held = [rows[place] for place in order[:cut]], [rows[place] for place in order[cut:]]
        truth = np.array([row.seconds for row in held])
        found = fit_kernels(fitted, chips[gpu]).predict([row.call for row in held])
        errors = Errors.of(found.seconds, truth)
        inside = float(np.mean((truth >= found.low) & (truth <= found.high)))
        print(
            f"  {gpu:<24} {len(held):>5} {errors.mean:>6.1f} {errors.rms:>6.1f} {errors.median:>7.1f}"
            f" {errors.bias:>6.1f} {inside:>11.0%}"
        )
    print(
        "  boosted trees on shapes alone, same split sizes: V100 13.6 / 21.0, A100 17.6 / 26.1;"
        " SEER on its own set: RMSPE 14.71"
    )


def roofline(calls: Sequence[KernelCall], chip: Chip) -> Array:
    flops, moved = _sizes(calls)
    return np.asarray(np.maximum(flops / chip.vector_peak, moved / chip.bandwidth))


def lines(rows: Sequence[tuple[Chip, MeasuredCall]], calls: Sequence[KernelCall], chip: Chip) -> Array:
    """A line per variant in operations and bytes, each scaled by the device's peak, on relative error."""
    found = np.empty(len(calls))
    variants = np.array([call.variant for call in calls])
    for variant in np.unique(variants):
        mine = [(there, row) for there, row in rows if row.call.variant == variant]
        seconds = np.array([row.seconds for _, row in mine])
        x = np.vstack([_scaled([row.call], there) for there, row in mine])
        slopes = np.linalg.lstsq(x / seconds[:, None], np.ones(len(mine)), rcond=None)[0]
        places = np.flatnonzero(variants == variant)
        found[places] = _scaled([calls[int(place)] for place in places], chip) @ slopes
    return np.maximum(found, 1e-6)


def _scaled(calls: Sequence[KernelCall], chip: Chip) -> Array:
    flops, moved = _sizes(calls)
    return np.column_stack([flops / chip.vector_peak, moved / chip.bandwidth, np.full(len(calls), 1e-5)])


def _sizes(calls: Sequence[KernelCall]) -> tuple[Array, Array]:
    return np.array([call.flops for call in calls]), np.array([call.read_bytes + call.written_bytes for call in calls])


def read_chips() -> dict[str, Chip]:
    """NeuSight's numbers where it gives them; generation, process and board power from our datasheets."""
    chips = {}
    for key, told in json.loads((DATA / "devices.json").read_text()).items():
        if key.endswith("_TP"):
            continue
        name = told["Device"]
        known = device_named(name)
        board = next((watts for part, watts in BOARD_POWER.items() if part in name), known.tdp_w)
        chips[name] = replace(
            known,
            name=name,
            peaks=((Precision.FP32, told["SingleFLOPs"] * 1e9),),
            bandwidth=told["Mem_Bw"] * 1e9,
            l2_bytes=told["L2Cache"] * 1e6,
            units=told["Num_Sm"],
            clock_hz=told["Freq"] * 1e6,
            memory_bytes=told["Dev_Mem"] * 1e9,
            tdp_w=board,
        )
    return chips


def measured(name: str, split: str, chips: Mapping[str, Chip]) -> dict[str, list[MeasuredCall]]:
    rows = defaultdict(list)
    for row in _rows(f"{split}_{name}" if split else name):
        if row["device"] not in chips:
            continue
        seconds = float(row["latency_ms"]) / 1e3
        rows[row["device"]].append(MeasuredCall(call=_call(name, row), seconds=seconds))
    return dict(rows)


def _rows(file: str) -> Iterator[Row]:
    with gzip.open(DATA / f"{file}.csv.gz", "rt", newline="") as text:
        yield from csv.DictReader(text)


def _call(name: str, row: Row) -> KernelCall:
    if name == "conv":
        return _conv(row)
    if name in ("bmm", "linear"):
        batch, m, k, n = (int(row[key]) for key in "BMNK")
        return _fp32("gemm", (batch, m, n, k), 2.0 * batch * m * n * k, batch * (m * k + k * n), batch * m * n, name)
    rows, columns = int(row["B"]), int(row["H"])
    elements = rows * columns
    if name == "elem":
        read = READ[row["op"]]
        return _fp32("elementwise", (elements, read, 1), elements, read * elements, elements, row["op"])
    return _fp32({"ln": "norm"}.get(name, name), (rows, columns), 5 * elements, elements, elements, name)


def _conv(row: Row) -> KernelCall:
    keys = ("batch", "in_channels", "out_channels", "kernel_size", "input_size", "stride", "padding")
    batch, into, out, kernel, side, stride, padding = (int(row[key]) for key in keys)
    end = (side + 2 * padding - kernel) // stride + 1
    dims = (batch, into, out, side, side, kernel, kernel, stride, padding, 1)
    flops = 2.0 * batch * out * end * end * into * kernel * kernel
    return _fp32("conv", dims, flops, batch * into * side * side + into * out * kernel**2, batch * out * end * end, "")


def _fp32(family: str, dims: tuple[int, ...], flops: float, read: float, written: float, variant: str) -> KernelCall:
    return KernelCall(
        family=family,
        dims=dims,
        precision=Precision.FP32,
        flops=flops,
        read_bytes=4.0 * read,
        written_bytes=4.0 * written,
        variant=variant,
    )


def _some(rows: Sequence[MeasuredCall], count: int) -> list[MeasuredCall]:
    chosen = np.random.default_rng(0).permutation(len(rows))[:count]
    return [rows[place] for place in chosen]


if __name__ == "__main__":
    main()
