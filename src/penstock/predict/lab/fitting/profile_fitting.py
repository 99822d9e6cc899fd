"""From raw measurements to a device profile: kernels, gaps, host costs, memory and power."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import median

import numpy as np

from penstock.predict.capture import Capture, MemoryUse, Setup, capture
from penstock.predict.device_profile import REFERENCE, DeviceProfile, shipped_profile
from penstock.predict.hardware import Bound, Chip, ClassPower
from penstock.predict.iteration import HostCost, IterationModel
from penstock.predict.kernels import ImageLayout, KernelModel, OperationTable
from penstock.predict.lab.fitting.boosting import BoostingOptions
from penstock.predict.lab.fitting.family_fitting import MeasuredCall
from penstock.predict.lab.fitting.host_cost_fitting import fit_host_costs, fit_host_of_gpu
from penstock.predict.lab.fitting.kernel_fitting import fit_kernels
from penstock.predict.lab.fitting.memory_fitting import MeasuredMemory, fit_memory
from penstock.predict.lab.fitting.power_fitting import MeasuredEnergy, fit_power
from penstock.predict.lab.records.measurements import IDLE, MeasuredNetwork, Measurements, SteadyLoad, shape, shapes_of
from penstock.predict.memory import MemoryModel

_DEVICE_BOUND = 0.7
"""An iteration whose issuing takes less than this share of it waited for the device, not for the host."""

_GROWTH_ON_CPU = BoostingOptions(trees=100, mean_trees=100, leaves=31)
"""Three minutes of a CPU are some ten thousand rows: larger forests take longer and are no better."""
_VIEWS, _COVERED = "view", 0.9
"""Counts without views are older: they say too little about a host. Its doubt covers nine of ten of the rest."""
_LEFT_OUT = 3
"""One of so many networks of a CPU tells how far sums are off."""

Seen = tuple[MeasuredNetwork, Capture]


def fit_profile(
    name: str, chip: Chip, raw: Sequence[Measurements], *, loads: Sequence[SteadyLoad] = (),
    options: BoostingOptions | None = None,
) -> DeviceProfile:  # fmt: skip
    """Fit everything on networks that are not held out, without kernels of shapes that held-out networks use."""
    serial = raw[0].environment.get("device") == "cpu"
    options = options or (_GROWTH_ON_CPU if serial else None)
    kernels = fit_kernels(training_calls(raw), chip, options=options)
    kernels = kernels if serial else replace(kernels, operations=_known_operations(chip))
    known = list(captured(raw, held_out=False))
    host = _host_beside_kernels(raw) if serial else _host_of_gpu(raw, known)
    model = IterationModel(kernels=kernels, host=host, gap_s=0.0 if serial else gap_s(raw), serial=serial)
    factor = _factor_of_unseen(raw, chip, options) if serial else _common_factor(known, model)
    model = replace(model, device_factor=factor)
    return DeviceProfile(
        name=name, chip=chip, iteration=model, memory=_memory(raw, known), power=_power(raw, kernels, chip, loads),
        environment=dict(raw[0].environment),
    )  # fmt: skip


def training_calls(raw: Sequence[Measurements]) -> list[MeasuredCall]:
    """Kernel rows to learn from: none of a held-out network, and none of the same shape as one of theirs."""
    tested = frozenset().union(*(shapes_of(each.rows, each.held_out()) for each in raw))
    return [
        MeasuredCall(call=call, seconds=float(seconds), alone=alone)
        for each in raw
        for call, seconds, held, alone in zip(
            each.rows.calls, each.rows.seconds, each.held_out(), each.alone(), strict=True
        )
        if not held and shape(call) not in tested
    ]


def _known_operations(chip: Chip) -> OperationTable:
    """What no family is fitted to is not timed in three minutes: as it is on the device that ships, carried over."""
    known = shipped_profile(REFERENCE).iteration.kernels
    return known.operations.carried(known.chip, chip)


def _memory(raw: Iterable[Measurements], known: Iterable[Seen]) -> MemoryModel:
    """From networks of the zoo, and random ones whose memory was followed when they were measured."""
    random = [(network, MemoryUse(**network.followed)) for each in raw for network in each.networks if network.followed]
    measured = [
        MeasuredMemory(use=use, allocated=network.peak_bytes, reserved=network.reserved_bytes)
        for network, use in (*((network, seen.memory) for network, seen in known), *random)
        if network.peak_bytes and network.reserved_bytes
    ]
    return fit_memory(measured, [network.process_bytes for network, _ in random if network.process_bytes])


def _host_of_gpu(raw: Iterable[Measurements], known: Sequence[Seen]) -> HostCost:
    """From networks of the zoo where those were measured, else from random ones, held near what hosts usually need."""
    issued = [(seen.issued, network.issue_s) for network, seen in known if _unhindered(network)]
    if issued:
        return fit_host_costs(issued)
    random = [
        (network.issued, network.issue_s)
        for each in raw
        for network in each.networks
        if network.issued and _VIEWS in network.issued and network.issue_s and _unhindered(network)
    ]
    if not random:
        return HostCost()
    found = fit_host_of_gpu(random, 0.0)
    off = [abs(np.log(found.seconds(counts) / seconds)) for counts, seconds in random]
    return replace(found, doubt=max(HostCost().doubt, float(np.quantile(off, _COVERED))))


def _common_factor(known: Iterable[tuple[MeasuredNetwork, Capture]], model: IterationModel) -> float:
    """What whole iterations take more than the sum of their kernels says: a hot chip, the caches of long networks."""
    ratios = [
        network.seconds / model.predict(seen).device_s
        for network, seen in known
        if network.issue_s < _DEVICE_BOUND * network.seconds
    ]
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else 1.0


def _factor_of_unseen(raw: Iterable[Measurements], chip: Chip, options: BoostingOptions | None) -> float:
    """What networks left out of a fit take more than the sum of their kernels says: three minutes of a CPU hold so few
    rows that trees remember them, and sums over others come out short."""
    off: list[float] = []
    for each in raw:
        left_out = each.rows.networks % _LEFT_OUT == 0
        tested, kept = each.rows.where(left_out), each.rows.where(~left_out)
        if not len(tested) or not len(kept):
            continue
        rows = training_calls([replace(each, rows=kept)])
        found = fit_kernels(rows, chip, options=options).predict(tested.calls).mean_s
        taken, predicted = (
            np.bincount(tested.networks, seconds * tested.counts) for seconds in (tested.seconds, found)
        )
        off += list(np.log(taken[taken > 0] / predicted[taken > 0]))
    return float(np.exp(np.mean(off))) if off else 1.0


def gap_s(raw: Iterable[Measurements]) -> float:
    """Seconds between the end of a kernel call and the start of the next, where the device never waits for the host."""
    gaps: list[float] = []
    for each in raw:
        calls = np.zeros(len(each.networks))
        np.add.at(calls, each.rows.networks, each.rows.counts)
        for network, count in zip(each.networks, calls, strict=True):
            if (
                network.kernel_s
                and count
                and not network.held_out
                and network.issue_s < _DEVICE_BOUND * network.seconds
            ):
                gaps.append((network.seconds - network.kernel_s) / count)
    return max(0.0, median(gaps)) if gaps else 0.0


def captured(raw: Iterable[Measurements], *, held_out: bool) -> Iterator[tuple[MeasuredNetwork, Capture]]:
    """Measured networks of the zoo, each with its capture."""
    from penstock.predict.zoo import NETWORKS

    known = {network.name for network in NETWORKS}
    for network in (network for each in raw for network in each.networks):
        if network.label in known and network.held_out == held_out:
            yield network, capture_of(network)


@lru_cache(maxsize=512)
def _capture(label: str, batch: int, setup: Setup) -> Capture:
    from penstock.predict.zoo import network_named

    return capture(network_named(label).hook, batch, setup)


def capture_of(network: MeasuredNetwork) -> Capture:
    return _capture(network.label, network.batch, setup_of(network))


def setup_of(network: MeasuredNetwork) -> Setup:
    return Setup(precision=network.precision, layout=ImageLayout(network.layout), optimizer=network.optimizer)


def _unhindered(network: MeasuredNetwork) -> bool:
    """Whether the time to issue an iteration is the host's own: behind a full queue it waits for the device."""
    return network.issue_s < _DEVICE_BOUND * network.seconds or network.seconds < 1.1 * network.issue_s


def _host_beside_kernels(raw: Iterable[Measurements]) -> HostCost:
    """On a CPU: what an iteration takes beyond its kernels, or less than them, against what was issued."""
    known = [
        (network.issued, network.seconds - network.kernel_s, network.seconds)
        for each in raw
        for network in each.networks
        if network.issued and network.kernel_s
    ]
    return fit_host_costs([(issued, left) for issued, left, _ in known], [whole for _, _, whole in known])


def _power(raw: Iterable[Measurements], kernels: KernelModel, chip: Chip, loads: Sequence[SteadyLoad]) -> ClassPower:
    """From whole networks and from steady loads; a device measured at rest is known to draw that much."""
    at_rest = [load.watts for load in loads if load.family == IDLE]
    chip = replace(chip, idle_w=at_rest[0]) if at_rest else chip
    runs = [*(run for each in raw for run in _energies(each, kernels)), *steady_loads(loads)]
    return fit_power(runs, chip) if runs else ClassPower.of(chip)


_COMPUTING = ("gemm", "conv", "attention")


def steady_loads(loads: Iterable[SteadyLoad]) -> list[MeasuredEnergy]:
    """Loads of one kind: large products wait for arithmetic, everything else for memory."""
    return [
        MeasuredEnergy(
            seconds={Bound.COMPUTE if load.family in _COMPUTING else Bound.DRAM: load.seconds},
            wall_s=load.seconds, joules=load.watts * load.seconds,
        )
        for load in loads
        if load.family != IDLE
    ]  # fmt: skip


def _energies(raw: Measurements, kernels: KernelModel) -> Iterator[MeasuredEnergy]:
    """Measured joules, with the measured kernel seconds put into the classes the model gives them."""
    bounds = kernels.predict(raw.rows.calls).bounds
    for index, network in enumerate(raw.networks):
        if network.joules is None or network.held_out or not network.kernel_s:
            continue
        mine = np.flatnonzero(raw.rows.networks == index)
        seconds = dict.fromkeys(Bound, 0.0)
        for row in mine:
            seconds[bounds[row]] += float(raw.rows.seconds[row] * raw.rows.counts[row])
        yield MeasuredEnergy(seconds=seconds, wall_s=max(network.seconds, sum(seconds.values())), joules=network.joules)
