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

from penstock.core import Cluster, Curve, InputError, TraceError
from penstock.simulate.traces.records import TraceJob
from penstock.simulate.traces.tables import Profiles

DURATIONS = ((0.8, 1.0, 2.5), (0.2, 2.5, 4.0))
"""(share, low, high): this share of the jobs runs for 10^U(low, high) minutes."""
SIZES = ((1, 0.83), (2, 0.03), (4, 0.03), (8, 0.10), (16, 0.01))
"""(devices, share): this share of the jobs asks for so many devices."""

MOST_TENANTS = 10_000
MOST_BURST = 10_000
_DAY_S = 86400.0
_STREAMS = (
    "arrival", "length class", "length", "size", "profile", "slack", "goal", "tenant", "burst", "gang", "gang size",
    "tight",
)  # fmt: skip
TIGHT = (1.05, 1.5)
"""A tight deadline in multiples of the run time on the best devices of the cluster, had the job them to itself."""

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
    skew: float = 0.0,
    burst: float = 1.0,
    gangs: float = 0.0,
    tight: float = 0.0,
    cluster: Cluster | None = None,
    chunk: int = 65536,
) -> Iterator[TraceJob]:
    """``count`` jobs in order of submission.

    Args:
        mean_interval_s: Mean time between submissions, a Poisson process; :func:`interval_for_load` derives it.
        lambda_range: A deadline lies lambda x duration after submission, lambda uniform in this range.
        best_effort: Share of jobs without a deadline.
        daily_swing: 0 for a constant rate; 0.8 for one that moves between 20 % and 180 % of the mean in a day.
        tenants: How many tenants submit.
        skew: The k-th of them submits in proportion to ``1 / k ** skew``; 0 for equally often.
        burst: Jobs come at the same moment in groups of so many on average, as many in all as without.
        gangs: Share of jobs that run on exactly so many devices: a quarter or half of a kind (:func:`gang_sizes`).
        tight: Share of the deadlines that are tight (:data:`TIGHT`).
        cluster: What gangs and tight deadlines are measured by.
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
        skew=skew,
        burst=burst,
        gangs=gangs,
        tight=tight,
        gang_sizes=gang_sizes(cluster) if cluster is not None else (),
    )
    if (gangs or tight) and cluster is None:
        raise InputError("gangs or tight deadlines without a cluster", "the cluster that they are meant for")
    if count < 0 or seed < 0 or chunk < 1:
        raise InputError(f"{count} jobs, seed {seed}, chunks of {chunk}", "zero or more, and chunks of at least 1")
    return _jobs(count, recipe, _Palette.of(profiles, recipe.all_sizes, cluster), seed, chunk)


def gang_sizes(cluster: Cluster) -> tuple[int, ...]:
    """Devices of gangs on a cluster: powers of two, up to a quarter and up to half of its largest kind."""
    most = max(cluster.capacity(kind) for kind in cluster.kinds)
    return tuple(sorted({2 ** int(math.log2(max(most // part, 1))) for part in (4, 2)}))


def with_gangs(sizes: Sizes, gangs: float, of: Sequence[int]) -> Sizes:
    """Shares of the sizes of all jobs, gangs included."""
    _require(0 <= gangs <= 1, f"a share of gangs of {gangs:g}", "0 to 1")
    if not gangs:
        return sizes
    return (*((devices, share * (1 - gangs)) for devices, share in sizes), *((size, gangs / len(of)) for size in of))


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
    skew: float
    burst: float
    gangs: float
    tight: float
    gang_sizes: tuple[int, ...]

    @property
    def all_sizes(self) -> Sizes:
        """The usual sizes, then those of gangs."""
        return (*self.sizes, *((size, 0.0) for size in self.gang_sizes if self.gangs))

    def __post_init__(self) -> None:
        low, high = self.lambda_range
        _require(0 < self.mean_interval_s < math.inf, f"a mean interval of {self.mean_interval_s:g} s", "above 0 s")
        _require(0 < low <= high < math.inf, f"lambda from {low:g} to {high:g}", "0 < low <= high")
        _require(0 <= self.best_effort <= 1, f"a best-effort share of {self.best_effort:g}", "0 to 1")
        _require(0 <= self.daily_swing < 1, f"a daily swing of {self.daily_swing:g}", "0 up to, not including, 1")
        _require(1 <= self.tenants <= MOST_TENANTS, f"{self.tenants} tenants", f"1 to {MOST_TENANTS}")
        _require(0 <= self.skew <= 10, f"a skew of tenants of {self.skew:g}", "0 to 10")
        _require(1 <= self.burst <= MOST_BURST, f"bursts of {self.burst:g} jobs", f"1 to {MOST_BURST}")
        _require(0 <= self.gangs <= 1, f"a share of gangs of {self.gangs:g}", "0 to 1")
        _require(0 <= self.tight <= 1, f"a share of tight deadlines of {self.tight:g}", "0 to 1")
        _require_shares("durations", [share for share, _, _ in self.durations])
        _require_shares("sizes", [share for _, share in self.sizes])


@dataclass(frozen=True, slots=True)
class _Palette:
    """For each size the profiles that run on it and their rates there, flat: those of size i start at ``starts[i]``.

    ``best`` is the rate on the best devices of the cluster; gangs have no choice of size.
    """

    models: tuple[str, ...]
    batches: tuple[int, ...]
    rates: Floats
    best: Floats
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, profiles: Profiles, sizes: Sizes, cluster: Cluster | None) -> "_Palette":
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
            np.array([_best_rate(profiles.curves[key], devices, cluster) for key, devices in flat]),
            np.cumsum(lengths) - lengths,
            lengths,
        )


def _jobs(count: int, recipe: _Recipe, palette: _Palette, seed: int, chunk: int) -> Iterator[TraceJob]:
    seeds = np.random.SeedSequence(seed).spawn(len(_STREAMS))
    streams = {name: np.random.default_rng(s) for name, s in zip(_STREAMS, seeds, strict=True)}
    clock = 0.0
    for start in range(0, count, chunk):
        drawn = {name: stream.random(min(chunk, count - start)) for name, stream in streams.items()}
        steps = -np.log1p(-drawn["arrival"]) * recipe.mean_interval_s
        if recipe.burst > 1:
            steps = np.where(drawn["burst"] * recipe.burst < 1, steps * recipe.burst, 0.0)
        operational = _running_sum(clock, steps)
        clock = float(operational[-1])
        yield from _records(start, _warp(operational, recipe.daily_swing), drawn, recipe, palette)


def _records(
    start: int, arrivals: Floats, drawn: dict[str, Floats], recipe: _Recipe, palette: _Palette
) -> Iterator[TraceJob]:
    size = _pick(drawn["size"], [share for _, share in recipe.sizes])
    is_gang = drawn["gang"] < recipe.gangs
    if recipe.gangs:
        gang = len(recipe.sizes) + (drawn["gang size"] * len(recipe.gang_sizes)).astype(np.int64)
        size = np.where(is_gang, gang, size)
    profile = palette.starts[size] + (drawn["profile"] * palette.lengths[size]).astype(np.int64)
    durations = _durations(drawn["length class"], drawn["length"], recipe.durations)
    iterations = np.maximum(np.floor(durations * palette.rates[profile]), 1.0)
    submitted = np.round(arrivals, 3)
    columns = zip(
        submitted.tolist(),
        np.array([devices for devices, _ in recipe.all_sizes])[size].tolist(),
        durations.tolist(),
        iterations.tolist(),
        profile.tolist(),
        _deadlines(submitted, durations, _best_s(iterations, profile, is_gang, palette), drawn, recipe),
        _tenants(drawn["tenant"], recipe),
        is_gang.tolist(),
        strict=True,
    )
    names = _tenant_names(recipe.tenants)
    for number, (at, devices, duration, work, key, deadline, tenant, gang) in enumerate(columns, start):
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
            rigid=gang,
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


def _deadlines(
    submitted: Floats, durations: Floats, best_s: Floats, drawn: dict[str, Floats], recipe: _Recipe
) -> list[float | None]:
    low, high = recipe.lambda_range
    slack = np.maximum(np.floor((low + (high - low) * drawn["slack"]) * durations), 1.0)
    if recipe.tight:
        least, most = TIGHT
        tight = np.maximum(np.ceil((least + (most - least) * drawn["slack"]) * best_s), 1.0)
        slack = np.where(drawn["tight"] < recipe.tight, tight, slack)
    deadlines: NDArray[Any] = np.round(submitted + slack, 3).astype(object)
    deadlines[drawn["goal"] < recipe.best_effort] = None
    return deadlines.tolist()  # type: ignore[no-any-return]


def _best_s(iterations: Floats, profile: NDArray[np.int64], is_gang: Any, palette: _Palette) -> Floats:
    """Run time on the best devices of the cluster; that of a gang is on as many as it needs."""
    return np.asarray(iterations / np.where(is_gang, palette.rates[profile], palette.best[profile]))


def _best_rate(curve: Curve, devices: int, cluster: Cluster | None) -> float:
    if cluster is None:
        return curve.rate(devices)
    usable = [curve.levels(kind, at_most=cluster.capacity(kind)) for kind in cluster.kinds]
    return max((levels[-1][1] for levels in usable if levels), default=curve.rate(devices))


def _tenants(uniform: Floats, recipe: _Recipe) -> list[int]:
    if not recipe.skew:
        return (uniform * recipe.tenants).astype(np.int64).tolist()  # type: ignore[no-any-return]
    weights = np.arange(1, recipe.tenants + 1) ** -recipe.skew
    return _pick(uniform, (weights / weights.sum()).tolist()).tolist()  # type: ignore[no-any-return]


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
