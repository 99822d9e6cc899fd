"""What a measuring session goes through until its time is up: random networks, bags of layers, networks of the zoo."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import count, product

from penstock.core import PenstockError
from penstock.predict.capture import Setup
from penstock.predict.kernels.calls import ImageLayout
from penstock.predict.lab.measuring.affordable_networks import MeasuringLimits, affordable, affordable_network
from penstock.predict.lab.measuring.session import MeasuringSession
from penstock.predict.lab.networks.layer_bags import layer_bag
from penstock.predict.lab.networks.layers import Kind
from penstock.predict.lab.networks.random_networks import RandomNetwork, random_network
from penstock.predict.zoo import NETWORKS

log = logging.getLogger(__name__)

_KERNEL_SECONDS = 0.04
"""What an iteration may take where only its kernels are measured."""
_LOST = "CUDA error"
"""A process in which a kernel failed gets nothing more from its device; another one may go on."""


def measure_random_networks(session: MeasuringSession, end: float, *, seed: int, seconds: float) -> int:
    """Random networks until ``end`` on the monotonic clock, on a GPU by turns with bags of layers; returns how many
    were measured."""

    def measure(number: int) -> bool:
        if session.device == "cuda" and number % 2:
            return session.measure_layers(layer_bag(number, session.memory_budget()))
        item, seen = affordable_network(number, session.device)
        return session.measure(item, seconds, seen=seen)

    return _one_by_one(session, end, seed, measure)


def measure_layer_bags(
    session: MeasuringSession, end: float, *, seed: int, kinds: Mapping[Kind, float] | None = None
) -> int:  # fmt: skip
    """Bags of random layers, the common kinds unless others are given, until ``end`` on the monotonic clock; returns
    how many were measured."""
    return _one_by_one(
        session, end, seed, lambda number: session.measure_layers(layer_bag(number, session.memory_budget(), kinds))
    )


def measure_network_kernels(session: MeasuringSession, end: float, *, seed: int) -> int:
    """Kernels of random networks until ``end`` on the monotonic clock; returns how many networks were measured."""

    limits = MeasuringLimits(seconds=_KERNEL_SECONDS, bytes=session.memory_budget())

    def measure(number: int) -> bool:
        return session.measure_kernels(affordable(random_network(number, session.device), session.device, limits)[0])

    return _one_by_one(session, end, seed, measure)


def _one_by_one(session: MeasuringSession, end: float, seed: int, measure: Callable[[int], bool]) -> int:
    """What cannot run is left out."""
    measured = 0
    for number in count(seed):
        if time.monotonic() >= end:
            break
        try:
            measured += measure(number)
        except (RuntimeError, ValueError) as problem:
            reason = str(problem).splitlines()[0]
            if _LOST in reason:
                raise PenstockError(
                    f"random network {number} broke the device: {reason}. "
                    "What was saved before is kept: go on with --resume and another --seed"
                ) from problem
            log.warning("random network %d is left out: %s", number, reason)
    session.save()
    return measured


def measure_zoo(
    session: MeasuringSession, end: float, *, seconds: float, precisions: Iterable[str] = ("bf16", "tf32"),
    only: Callable[[str], bool] = lambda _: True, layout: ImageLayout = ImageLayout.CHANNELS_FIRST,
) -> int:  # fmt: skip
    """The networks of the zoo at their batch sizes, and the kernels of each at its second one."""
    measured = 0
    for network, precision in product(filter(lambda network: only(network.name), NETWORKS), precisions):
        setup = Setup(precision=precision, optimizer=network.optimizer, layout=layout)
        for position, batch in enumerate(network.batches):
            if time.monotonic() > end:
                log.warning("time is up before %s", network.name)
                return measured
            item = RandomNetwork(label=network.name, hook=network.hook, batch=batch, setup=setup)
            measured += session.measure(item, seconds, held_out=network.held_out, kernels=position == 1)
    return measured
