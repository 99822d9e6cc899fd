"""Raw measurements of one device: pairs of ``NAME.npz`` (kernel rows) and ``NAME.json`` (networks, environment)."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import InputError
from penstock.predict.kernels.calls import KernelCall
from penstock.predict.lab.records.kernel_rows import KernelRows, load_rows

BAG = "bag-"
"""How the label of a bag of layers begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredNetwork:
    """A network that ran: how it was trained, how long an iteration took, what it drew and held.

    ``seconds`` is 0 for what was not timed as a whole: bags of layers, and networks measured for their kernels alone.
    """

    label: str
    batch: int
    precision: str
    layout: str
    optimizer: str
    held_out: bool
    seconds: float = 0.0
    spread: float = 0.0
    issue_s: float = 0.0
    kernel_s: float | None = None
    peak_bytes: int | None = None
    reserved_bytes: int | None = None
    joules: float | None = None
    issued: dict[str, int] | None = None
    followed: dict[str, int] | None = None
    """What its capture says of memory."""
    process_bytes: int | None = None

    @property
    def is_bag(self) -> bool:
        return self.label.startswith(BAG)

    @classmethod
    def read(cls, found: dict[str, Any]) -> "MeasuredNetwork":
        return cls(**{name: found[name] for name in cls.__dataclass_fields__ if name in found})


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """One session's networks and kernel rows; ``rows.networks`` indexes ``networks``."""

    networks: tuple[MeasuredNetwork, ...]
    rows: KernelRows
    environment: dict[str, Any]
    name: str = ""
    """Of the file."""

    def held_out(self) -> NDArray[np.bool_]:
        """For every kernel row, whether its network may only be tested on."""
        return np.array([network.held_out for network in self.networks], dtype=bool)[self.rows.networks]

    def alone(self) -> NDArray[np.bool_]:
        """For every kernel row, whether it ran in a bag of layers and not in a network."""
        return np.array([network.is_bag for network in self.networks], dtype=bool)[self.rows.networks]


def read_measurements(folder: Path) -> tuple[Measurements, ...]:
    """Everything measured in a folder."""
    pairs = [(path, path.with_suffix(".npz")) for path in sorted(folder.glob("*.json"))]
    found = tuple(_read(about, rows) for about, rows in pairs if rows.exists())
    if not found:
        raise InputError(
            f"no measurements in {folder}", "pairs of .json and .npz", "`penstock profile device` writes them"
        )
    return found


def _read(about: Path, rows: Path) -> Measurements:
    try:
        written = json.loads(about.read_text())
        networks = tuple(MeasuredNetwork.read(each) for each in written["networks"])
    except (ValueError, KeyError, TypeError) as problem:
        raise InputError(
            f"{about} cannot be read as measurements: {problem}", "a file of `penstock profile device`"
        ) from None
    return Measurements(
        networks=networks, rows=load_rows(rows), environment=written.get("environment", {}), name=about.stem
    )


IDLE = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyLoad:
    """One kind of work repeated until the power settled: seconds of one repetition, and watts."""

    family: str
    precision: str
    watts: float
    seconds: float


def read_power(folder: Path) -> tuple[SteadyLoad, ...]:
    """Steady loads of a folder's ``power.json``; none where power was not measured."""
    path = folder / "power.json"
    if not path.exists():
        return ()
    try:
        return tuple(
            SteadyLoad(**{name: each[name] for name in SteadyLoad.__dataclass_fields__})
            for each in json.loads(path.read_text())
        )
    except (ValueError, KeyError, TypeError) as problem:
        raise InputError(
            f"{path} cannot be read as measured power: {problem}", "a file of `penstock profile device`"
        ) from None


def shapes_of(rows: KernelRows, mask: NDArray[np.bool_]) -> frozenset[tuple[str, tuple[int, ...]]]:
    return frozenset(shape(call) for call, chosen in zip(rows.calls, mask, strict=True) if chosen)


def shape(call: KernelCall) -> tuple[str, tuple[int, ...]]:
    """What makes two calls the same work, whatever they run in."""
    return call.family, call.dims
