"""Iteration time, memory and energy of a model before it runs, on one device and on many.

The batch is the job's: with n devices each takes its share of it and gradients are averaged, overlapped with the
backward pass. That is what the elastic runtime does, so the curve is the one the scheduler plans with.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from penstock.core import Curve, InputError, Scaling, Source
from penstock.network import Link, data_parallel_s, link_named
from penstock.predict.capture import Capture, Hook, Setup, TrainingPhase, capture
from penstock.predict.device_profile import REFERENCE, DeviceProfile
from penstock.predict.iteration import IterationTime
from penstock.predict.memory import MemoryPrediction

_UNSEEN, _NAMED = 0.01, 6
"""Share of the kernel time in operations never timed from which on they are named, and how many of them are."""
_NOTABLE = 0.1
"""Share of an iteration predicted beyond what was profiled from which on it is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedPoint:
    """One iteration on a number of devices, all of them together holding the batch."""

    devices: int
    share: int
    """Samples of the largest share of the batch."""
    seconds: float
    low: float
    high: float
    communication_s: float
    """What averaging gradients adds that the backward pass does not hide."""
    joules: float
    memory: MemoryPrediction
    time: IterationTime


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrediction:
    """What a model takes on a kind of device. ``points`` is in increasing number of devices."""

    device: str
    batch: int
    setup: Setup
    parameters: int
    flops: float
    points: tuple[PredictedPoint, ...]
    notes: tuple[str, ...] = ()

    @property
    def first(self) -> PredictedPoint:
        return self.points[0]

    def curve(self, kind: str) -> Curve:
        """Iterations per second for the scheduler; counts whose memory does not suffice are left out by the caller."""
        counts, rates = tuple(p.devices for p in self.points), tuple(1 / p.seconds for p in self.points)
        return Curve(((kind, Scaling(counts=counts, rates=rates, source=Source.PREDICTED)),))


def predict_model(
    hook: Hook,
    batch: int,
    profile: DeviceProfile,
    setup: Setup | None = None,
    *,
    devices: Sequence[int] = (1,),
    link: str | None = None,
    measured: Sequence[tuple[int, float]] = (),
) -> ModelPrediction:
    """Predict a model on one or more devices of a kind.

    ``measured`` is what was observed of the same model on one such device, (batch, seconds) each: one corrects the
    rest, two of different sizes tell the device from the host.

    >>> from penstock.predict.device_profile import profile_named
    >>> from penstock.predict.zoo import network_named
    >>> seen = predict_model(network_named("resnet18").hook, 64, profile_named("a100"), devices=(1, 2))
    >>> [point.share for point in seen.points]
    [64, 32]
    """
    setup = setup or Setup()
    counts, wire = _counts(devices, batch), link_named(link or profile.chip.link)
    if measured:
        first, *more = [(capture(hook, at, setup, device=profile.kind), seconds) for at, seconds in measured]
        profile = replace(profile, iteration=profile.iteration.calibrated(*first, *more))
    points, seen = [], None
    for count in counts:
        share = math.ceil(batch / count)
        seen = capture(hook, share, setup, device=profile.kind)
        points.append(_scaled(seen, count, share, profile, wire))
    assert seen is not None
    return ModelPrediction(
        device=profile.name, batch=batch, setup=setup, parameters=seen.parameters,
        flops=seen.flops / points[-1].share * batch, points=tuple(points),
        notes=(*_notes(profile, points), *seen.assumed),
    )  # fmt: skip


def _counts(devices: Sequence[int], batch: int) -> tuple[int, ...]:
    counts = tuple(sorted(set(devices)))
    if not counts or counts[0] < 1:
        raise InputError(f"device counts {list(devices)}", "at least one, each 1 or more")
    if counts[-1] > batch:
        raise InputError(f"{counts[-1]} devices for a batch of {batch}", f"at most {batch}", "Give a larger --batch")
    return counts


def _scaled(seen: Capture, count: int, share: int, profile: DeviceProfile, link: Link) -> PredictedPoint:
    time = profile.iteration.predict(seen)
    added = (
        data_parallel_s(seen.gradient_bytes, count, link, time.by_phase.get(TrainingPhase.BACKWARD, 0.0))
        if count > 1
        else 0.0
    )
    seconds = time.seconds + added
    joules = profile.power.energy_j(time.by_bound, max(seconds, sum(time.by_bound.values()))) * count
    return PredictedPoint(
        devices=count, share=share, seconds=seconds, low=time.low + added * 0.7, high=time.high + added * 1.4,
        communication_s=added, joules=joules, memory=profile.memory.predict(seen.memory), time=time,
    )  # fmt: skip


def _from_datasheet(profile: DeviceProfile) -> str:
    if profile.kind == "cpu":
        return f"{profile.name} was never measured: this is a roofline (`penstock profile device` measures it)"
    return (
        f"{profile.name} was never measured: its data sheet, at the shares of its rates that kernels reach on the "
        f"{REFERENCE}. Of what others published about such devices nine of ten iterations lie between these bars; "
        "`penstock profile device` narrows them"
    )


def _notes(profile: DeviceProfile, points: Sequence[PredictedPoint]) -> Iterable[str]:
    if not profile.measured:
        yield _from_datasheet(profile)
    beyond = max(point.time.beyond for point in points)
    if profile.measured and beyond > _NOTABLE:
        yield f"{beyond:.0%} of the kernel time lies outside of what was profiled: bars are wider there"
    unseen = points[0].time.unseen
    if profile.measured and sum(unseen.values()) > _UNSEEN:
        share, names = sum(unseen.values()), ", ".join(list(unseen)[:_NAMED])
        yield f"{share:.0%} of the kernel time in operations never timed: {names} (`penstock profile op` times them)"
    if not any(point.memory.fits(profile.chip.memory_bytes) for point in points):
        yield f"does not fit: needs {points[-1].memory.needed / 1e9:.1f} GB of {profile.chip.memory_bytes / 1e9:.0f} GB"
