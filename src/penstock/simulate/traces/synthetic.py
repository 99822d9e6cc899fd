"""Traces of any length out of a seed, made as fast as they are used and never held as a whole.

The defaults are those of the generator published with ElasticFlow (Gu et al., ASPLOS 2023): mostly short jobs on one
device with a heavy tail in both. Every quantity has a random stream of its own and is computed from uniform numbers
one by one, so a trace depends neither on the chunks it is drawn in nor, for the jobs both have, on its length.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import InputError, TraceError
from penstock.simulate.traces.records import TraceJob
from penstock.simulate.traces.tables import Profiles

DURATIONS = ((0.8, 1.0, 2.5), (0.2, 2.5, 4.0))
"""(share, low, high): this share of the jobs runs for 10^U(low, high) minutes."""
SIZES = ((1, 0.83), (2, 0.03), (4, 0.03), (8, 0.10), (16, 0.01))
"""(devices, share): this share of the jobs asks for so many devices."""

_DAY_S = 86400.0
_STREAMS = ("arrival", "length class", "length", "size", "profile", "slack", "goal", "tenant")

Floats = NDArray[np.float64]
Durations = Sequence[tuple[float, float, float]]
Sizes = Sequence[tuple[int, float]]


def generate(
    count: int,
    *,
    seed: int,
    profiles: Profiles,
    mean_interval_s: float,
    lambda_range: tuple[float, float] = (0.5, 1.5),
    best_effort: float = 0.0,
    durations: Durations = DURATIONS,
    sizes: Sizes = SIZES,
    daily_swing: float = 0.0,
    tenants: int = 1,
    chunk: int = 65536,
) -> Iterator[TraceJob]:
    """``count`` jobs in order of submission.

    Args:
        mean_interval_s: Mean time between submissions, a Poisson process; :func:`interval_for_load` derives it.
        lambda_range: A deadline lies lambda x duration after submission, lambda uniform in this range.
        best_effort: Share of jobs without a deadline.
        daily_swing: 0 for a constant rate; 0.8 for one that moves between 20 % and 180 % of the mean in a day.
        tenants: How many tenants submit, each equally often.
        chunk: Jobs drawn at once; changes memory and speed, not the jobs.
    """
    recipe = _Recipe(
        mean_interval_s=mean_interval_s,
        lambda_range=lambda_range,
        best_effort=best_effort,
        durations=tuple(durations),
        sizes=tuple(sizes),
        daily_swing=daily_swing,
        tenants=tenants,
    )
    if count < 0 or seed < 0 or chunk < 1:
        raise InputError(f"{count} jobs, seed {seed}, chunks of {chunk}", "zero or more, and chunks of at least 1")
    return _jobs(count, recipe, _Palette.of(profiles, recipe.sizes), seed, chunk)


def interval_for_load(load: float, devices: int, *, durations: Durations = DURATIONS, sizes: Sizes = SIZES) -> float:
    """The mean seconds between submissions that ask, on average, for ``load`` x ``devices`` devices at any time."""
    if not (0 < load < math.inf) or devices < 1:
        raise InputError(f"a load of {load:g} on {devices} devices", "a load above 0 on at least 1 device", "Try 0.8")
    return _mean_duration_s(durations) * _mean_size(sizes) / (load * devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recipe:
    mean_interval_s: float
    lambda_range: tuple[float, float]
    best_effort: float
    durations: tuple[tuple[float, float, float], ...]
    sizes: tuple[tuple[int, float], ...]
    daily_swing: float
    tenants: int

    def __post_init__(self) -> None:
        low, high = self.lambda_range
        _require(0 < self.mean_interval_s < math.inf, f"a mean interval of {self.mean_interval_s:g} s", "above 0 s")
        _require(0 < low <= high < math.inf, f"lambda from {low:g} to {high:g}", "0 < low <= high")
        _require(0 <= self.best_effort <= 1, f"a best-effort share of {self.best_effort:g}", "0 to 1")
        _require(0 <= self.daily_swing < 1, f"a daily swing of {self.daily_swing:g}", "0 up to, not including, 1")
        _require(self.tenants >= 1, f"{self.tenants} tenants", "at least 1")
        _require_shares("durations", [share for share, _, _ in self.durations])
        _require_shares("sizes", [share for _, share in self.sizes])


@dataclass(frozen=True, slots=True)
class _Palette:
    """For each size the profiles that run on it and their rates there, flat: those of size i start at ``starts[i]``."""

    models: tuple[str, ...]
    batches: tuple[int, ...]
    rates: Floats
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, profiles: Profiles, sizes: Sizes) -> "_Palette":
        fitting = [profiles.fitting(devices) for devices, _ in sizes]
        for (devices, _), keys in zip(sizes, fitting, strict=True):
            if not keys:
                raise TraceError(f"no profile of {profiles.name} runs on {devices} devices", "other sizes or profiles")
        flat = [(key, devices) for (devices, _), keys in zip(sizes, fitting, strict=True) for key in keys]
        lengths = np.array([len(keys) for keys in fitting], dtype=np.int64)
        return cls(
            tuple(model for (model, _), _ in flat),
            tuple(batch for (_, batch), _ in flat),
            np.array([profiles.curves[key].rate(devices) for key, devices in flat]),
            np.cumsum(lengths) - lengths,
            lengths,
        )


def _jobs(count: int, recipe: _Recipe, palette: _Palette, seed: int, chunk: int) -> Iterator[TraceJob]:
    seeds = np.random.SeedSequence(seed).spawn(len(_STREAMS))
    streams = {name: np.random.default_rng(s) for name, s in zip(_STREAMS, seeds, strict=True)}
    clock = 0.0
    for start in range(0, count, chunk):
        drawn = {name: stream.random(min(chunk, count - start)) for name, stream in streams.items()}
        operational = _running_sum(clock, -np.log1p(-drawn["arrival"]) * recipe.mean_interval_s)
        clock = float(operational[-1])
        yield from _records(start, _warp(operational, recipe.daily_swing), drawn, recipe, palette)


def _records(
    start: int, arrivals: Floats, drawn: dict[str, Floats], recipe: _Recipe, palette: _Palette
) -> Iterator[TraceJob]:
    size = _pick(drawn["size"], [share for _, share in recipe.sizes])
    profile = palette.starts[size] + (drawn["profile"] * palette.lengths[size]).astype(np.int64)
    durations = _durations(drawn["length class"], drawn["length"], recipe.durations)
    iterations = np.maximum(np.floor(durations * palette.rates[profile]), 1.0)
    submitted = np.round(arrivals, 3)
    columns = zip(
        submitted.tolist(),
        np.array([devices for devices, _ in recipe.sizes])[size].tolist(),
        durations.tolist(),
        iterations.tolist(),
        profile.tolist(),
        _deadlines(submitted, durations, drawn, recipe),
        (drawn["tenant"] * recipe.tenants).astype(np.int64).tolist(),
        strict=True,
    )
    names = _tenant_names(recipe.tenants)
    for number, (at, devices, duration, work, key, deadline, tenant) in enumerate(columns, start):
        yield TraceJob(
            id=f"job-{number}",
            submitted_at=at,
            devices=devices,
            duration_s=duration,
            iterations=work,
            model=palette.models[key],
            batch=palette.batches[key],
            deadline=deadline,
            tenant=names[tenant],
        )


def _running_sum(start: float, steps: Floats) -> Floats:
    """Sums added strictly one after the other, so that chunks of any size round alike."""
    return np.cumsum(np.concatenate(([start], steps)))[1:]


def _warp(operational: Floats, swing: float) -> Floats:
    """Times of a constant-rate process moved so that the rate follows the day, quietest at its start."""
    if not swing:
        return operational
    clock = np.linspace(0.0, _DAY_S, 24 * 60 + 1)
    elapsed = clock - swing * _DAY_S / (2 * math.pi) * np.sin(2 * math.pi * clock / _DAY_S)
    days = np.floor(operational / _DAY_S)
    return days * _DAY_S + np.interp(operational - days * _DAY_S, elapsed, clock)


def _pick(uniform: Floats, shares: Sequence[float]) -> NDArray[np.int64]:
    edges = np.cumsum(shares)
    return np.minimum(np.searchsorted(edges, uniform, side="right"), len(edges) - 1)


def _durations(which: Floats, uniform: Floats, mix: Durations) -> Floats:
    """Whole seconds, at least one."""
    part = _pick(which, [share for share, _, _ in mix])
    low, high = np.array([low for _, low, _ in mix])[part], np.array([high for _, _, high in mix])[part]
    minutes: Floats = 10.0 ** (low + (high - low) * uniform)
    return np.maximum(np.floor(60.0 * minutes), 1.0)


def _deadlines(submitted: Floats, durations: Floats, drawn: dict[str, Floats], recipe: _Recipe) -> list[float | None]:
    low, high = recipe.lambda_range
    slack = np.maximum(np.floor((low + (high - low) * drawn["slack"]) * durations), 1.0)
    deadlines: NDArray[Any] = np.round(submitted + slack, 3).astype(object)
    deadlines[drawn["goal"] < recipe.best_effort] = None
    return deadlines.tolist()  # type: ignore[no-any-return]


def _tenant_names(count: int) -> list[str]:
    return ["default"] if count == 1 else [f"tenant-{number}" for number in range(1, count + 1)]


def _mean_duration_s(mix: Durations) -> float:
    """The mean of 10^U(a, b) is (10^b - 10^a) / ((b - a) ln 10)."""
    _require_shares("durations", [share for share, _, _ in mix])
    return 60.0 * sum(
        share * ((10**high - 10**low) / ((high - low) * math.log(10)) if high > low else 10**low)
        for share, low, high in mix
    )


def _mean_size(sizes: Sizes) -> float:
    _require_shares("sizes", [share for _, share in sizes])
    return sum(devices * share for devices, share in sizes)


def _require(holds: bool, given: str, allowed: str) -> None:
    if not holds:
        raise InputError(given, allowed)


def _require_shares(what: str, shares: Sequence[float]) -> None:
    fine = all(share >= 0 for share in shares) and math.isclose(sum(shares), 1.0, abs_tol=1e-9)
    _require(fine, f"shares of {what} {tuple(shares)}", "shares that add up to 1")
