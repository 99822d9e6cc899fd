"""From tokens to days and money: what a whole training run takes under a plan."""

import re
from dataclasses import dataclass

from penstock.core import InputError
from penstock.parallel.devices import ChipMesh
from penstock.parallel.families import Family
from penstock.parallel.planning.candidates import Planned

USUAL_BATCH_TOKENS = 4 << 20
"""Tokens of a step where nobody said a batch: what Llama 3 and many others begin with."""
_SCALES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """``tokens`` in ``iterations`` steps; ``cost`` is NaN where no price of a device-hour is known.

    Time without restarts, evaluations and checkpoints: what the steps take, one after the other.
    """

    tokens: float
    iterations: int
    seconds: float
    device_hours: float
    cost: float


def training_run(planned: Planned, tokens: float, price: float | None = None) -> TrainingRun:
    """``price``: of one device for an hour, in any currency."""
    if planned.family.tokens <= 1:
        raise InputError(f"tokens for {planned.family.name}", "a model that reads tokens", "Leave --tokens away")
    if price is not None and not 0 <= price < 1e6:
        raise InputError(f"a price of {price} per device-hour", "0 or more")
    iterations = -(-int(tokens) // (planned.plan.global_batch * planned.family.tokens))
    seconds = iterations * planned.prediction.iteration_s
    hours = seconds / 3600 * planned.mesh.devices
    return TrainingRun(
        tokens=tokens, iterations=iterations, seconds=seconds, device_hours=hours,
        cost=float("nan") if price is None else hours * price,
    )  # fmt: skip


def run_words(run: TrainingRun) -> str:
    cost = "" if run.cost != run.cost else f", {run.cost:,.0f} at that price of a device-hour"
    return (
        f"{_short(run.tokens)} tokens: {run.iterations:,} iterations, {run.seconds / 86_400:,.1f} days without "
        f"interruptions, {run.device_hours:,.0f} device-hours{cost}"
    )


def parse_tokens(text: str) -> float:
    """A number of tokens: "2T", "300B", "1.5M", "65536".

    >>> parse_tokens("2T")
    2000000000000.0
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmbt]?)", text.strip().lower().replace(",", "").replace("_", ""))
    tokens = float(found[1]) * _SCALES[found[2]] if found else 0.0
    if not 1 <= tokens <= 1e18:
        raise InputError(f"{text!r} tokens", 'a number like "2T", "300B" or "1.5M"')
    return tokens


def usual_batch(family: Family, mesh: ChipMesh) -> int:
    """Samples of about four million tokens, a multiple of the devices so that every split divides it."""
    samples = max(1, USUAL_BATCH_TOKENS // max(1, family.tokens))
    return max(mesh.devices, samples // mesh.devices * mesh.devices)


def _short(tokens: float) -> str:
    for sign, scale in (("T", 1e12), ("B", 1e9), ("M", 1e6)):
        if tokens >= scale:
            return f"{tokens / scale:g}{sign}"
    return f"{tokens:g}"
