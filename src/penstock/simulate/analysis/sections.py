"""The parts of an analysis: a table, what it shows in sentences, and a picture where one says more."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from penstock.core import format_duration
from penstock.policies import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One thing that the figures show, the figures themselves, and what to do about it."""

    title: str
    text: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A curve of a picture: points in order of ``x``."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Curves over one axis. ``log`` is a logarithmic one; ``unit`` is s, devices or h."""

    title: str
    lines: Sequence[Series]
    unit: str
    log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One question about a cluster, answered. ``unknown`` says what would have to be known where it cannot be."""

    name: str
    title: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    advice: Sequence[Advice] = ()
    picture: Picture | None = None
    unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """Everything that was asked, in order."""

    name: str
    jobs: int
    devices: int | None
    span_s: float
    device_hours: float
    sections: Sequence[Section]
    notes: Sequence[str] = ()

    @property
    def advice(self) -> list[Advice]:
        return [each for section in self.sections for each in section.advice]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.1f} %"


def seconds(value: float) -> str:
    return "-" if math.isnan(value) else format_duration(value)


def hours(device_s: float) -> str:
    """Device-seconds as device-hours."""
    return f"{device_s / 3600:,.1f}" if device_s < 360_000 else f"{device_s / 3600:,.0f}"


def quantile(values: Floats, share: float) -> float:
    known = values[~np.isnan(values)]
    return float(np.quantile(known, share)) if len(known) else math.nan


def mean(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan


def distribution(name: str, values: Floats, weights: Floats | None = None, points: int = 80) -> Series:
    """How large a part of the values, or of their weights, is at most ``x``."""
    order = np.argsort(values, kind="stable")
    x, weight = values[order], np.ones(len(values)) if weights is None else weights[order]
    y = np.cumsum(weight) / max(float(weight.sum()), np.finfo(np.float64).tiny)
    kept = np.unique(np.linspace(0, len(x) - 1, min(points, len(x))).astype(np.int64))
    return Series(name=name, x=[float(v) for v in x[kept]], y=[float(v) for v in y[kept]])
