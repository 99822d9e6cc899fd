"""Iterations that others measured on devices we never had, with their sources.

``iterations.csv`` beside this file holds two of them: end-to-end latencies of the NeuSight repository (sitar-lab,
ASPLOS'25, MIT licence; fp32, PyTorch 2.1 and, for AMD, 2.4; a layer's latency times their number) and training
throughputs of one GPU that NVIDIA reports in its DeepLearningExamples (commit 729963d; PyTorch 21.03 and 21.11). Zeus's
and Gavel's tables are read from the public data beside the repository, where there is any.
"""

import ast
import csv
import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.devices.networks import Hook, hook_named
from penstock.predict import ImageLayout, Setup

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
_OWN = Path(__file__).parent / "iterations.csv"
_IMAGENET, _SQUAD = 1_281_167, 88_524
"""Samples an epoch has: ImageNet's training pictures, and SQuAD 1.1 cut to 384 words every 128."""
_ZEUS_BATCHES = {"resnet50": ("16", "64", "128"), "bert_base_uncased": ("8", "12", "24")}
_ZEUS_CARDS = {"v100": "v100-pcie", "p100": "p100", "a40": "a40", "rtx6000": "rtx6000"}
_GAVEL_BATCHES = (16, 64, 128)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredIteration:
    """Seconds of ``part`` of an iteration: ``forward``, ``gradients`` (forward and backward), or all of it."""

    source: str
    device: str
    network: str
    batch: int
    precision: str
    layout: str
    part: str
    seconds: float

    @property
    def hook(self) -> Hook:
        return hook_named(self.network, forward_only=self.part == "forward")

    @property
    def setup(self) -> Setup:
        return Setup(precision=self.precision, layout=ImageLayout(self.layout), optimizer="sgd")


def measured_iterations() -> list[MeasuredIteration]:
    return [*_typed(), *_zeus(), *_gavel()]


def _typed() -> Iterator[MeasuredIteration]:
    with _OWN.open(newline="") as file:
        for row in csv.DictReader(file):
            numbers = {"batch": int(row.pop("batch")), "seconds": float(row.pop("seconds"))}
            yield MeasuredIteration(**row, **numbers)  # type: ignore[arg-type]


def _zeus() -> Iterator[MeasuredIteration]:
    """Runs at a card's highest power limit. Epochs go through a loader and hold whatever it does."""
    for card, device in _ZEUS_CARDS.items():
        path = DATA / "zeus-power" / f"summary_power_{card}.csv"
        best: dict[tuple[str, str], tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        for row in _rows(path):
            if row["dataset"] in ("imagenet", "squad"):
                key = row["network"], row["batch_size"]
                best[key] = max(best[key], (float(row["power_limit"]), float(row["time_per_epoch"])))
        for (network, batch), (_, epoch) in best.items():
            if batch in _ZEUS_BATCHES[network]:
                yield _of_epoch(device, network, int(batch), epoch)


def _of_epoch(device: str, network: str, batch: int, epoch_s: float) -> MeasuredIteration:
    pictures = network == "resnet50"
    return MeasuredIteration(
        source="Zeus", device=device, network="resnet50" if pictures else "bert_base-384", batch=batch,
        precision="default", layout="nchw", part="iteration",
        seconds=epoch_s * batch / (_IMAGENET if pictures else _SQUAD),
    )  # fmt: skip


def _gavel() -> Iterator[MeasuredIteration]:
    """ResNet-50 alone on one GPU."""
    path = DATA / "gavel" / "simulation_throughputs.json.gz"
    found = json.loads(gzip.decompress(path.read_bytes())) if path.exists() else {}
    for card in ("v100", "p100"):
        rates = {ast.literal_eval(key): told["null"] for key, told in found.get(card, {}).items()}
        for batch in _GAVEL_BATCHES:
            if (f"ResNet-50 (batch size {batch})", 1) in rates:
                yield MeasuredIteration(
                    source="Gavel", device=card, network="resnet50", batch=batch, precision="fp32", layout="nchw",
                    part="iteration", seconds=1 / rates[f"ResNet-50 (batch size {batch})", 1],
                )  # fmt: skip


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
