"""Aceso's reconfiguration primitives beside migration: devices between stages, and the micro-batch.

Every primitive says what it does to computation, memory and communication of its target; the policy reads that.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from bench.aceso.config import AcesoConfig, Space
from bench.aceso.migrate import migrate, start_of
from bench.aceso.visits import Visits
from penstock.core import ParallelStage
from penstock.parallel.devices import STAGE_DEVICES


class Effect(StrEnum):
    """What a primitive does to a resource of its target."""

    MORE = "+"
    LESS = "-"
    SAME = "0"


Apply = Callable[[AcesoConfig, int, Visits, Callable[[], bool]], AcesoConfig | None]


@dataclass(frozen=True, slots=True)
class Primitive:
    """A move with its effects."""

    name: str
    computation: Effect
    memory: Effect
    communication: Effect
    apply: Apply


def _devices(grow: bool, dim: str) -> Apply:
    def apply(config: AcesoConfig, target: int, visits: Visits, enough: Callable[[], bool]) -> AcesoConfig | None:
        del visits, enough
        return _exchanged(config, target, grow, dim)

    return apply


def _micro_batch(step: int) -> Apply:
    def apply(config: AcesoConfig, target: int, visits: Visits, enough: Callable[[], bool]) -> AcesoConfig | None:
        del target, visits, enough
        return _resized(config, step)

    return apply


def _swap(grow_tp: bool) -> Apply:
    def apply(config: AcesoConfig, target: int, visits: Visits, enough: Callable[[], bool]) -> AcesoConfig | None:
        del visits, enough
        return _swapped(config, target, grow_tp)

    return apply


PRIMITIVES = (
    Primitive("dec_op", Effect.LESS, Effect.LESS, Effect.SAME, migrate),
    Primitive("inc_dp", Effect.LESS, Effect.LESS, Effect.MORE, _devices(True, "dp")),
    Primitive("dec_dp", Effect.MORE, Effect.MORE, Effect.LESS, _devices(False, "dp")),
    Primitive("inc_tp", Effect.LESS, Effect.LESS, Effect.MORE, _devices(True, "tp")),
    Primitive("dec_tp", Effect.MORE, Effect.MORE, Effect.LESS, _devices(False, "tp")),
    Primitive("inc_mbs", Effect.LESS, Effect.MORE, Effect.SAME, _micro_batch(1)),
    Primitive("dec_mbs", Effect.MORE, Effect.LESS, Effect.SAME, _micro_batch(-1)),
)


SWAPS = (
    Primitive("inc_tp_dec_dp", Effect.MORE, Effect.LESS, Effect.MORE, _swap(True)),
    Primitive("inc_dp_dec_tp", Effect.LESS, Effect.MORE, Effect.LESS, _swap(False)),
)
"""Dimensions exchanged inside a stage: part of the original, switched off in its published runs."""


def _exchanged(config: AcesoConfig, target: int, grow: bool, dim: str) -> AcesoConfig | None:
    """Double or halve the devices of ``target`` along ``dim``; partners give or take the difference.

    The first partner is the one whose stage is predicted fastest after the change; the next one if that ends in
    something illegal.
    """
    if _scaled(config, target, dim, grow) is None:
        return None
    tried = {target}
    for _ in range(len(config.stages) - 1):
        partner = _fastest_partner(config, tried, not grow)
        if partner is None:
            return None
        tried.add(partner[0])
        stages = _settled(config, (target, dim), partner, grow)
        if stages is not None:
            return config.space.config(
                config.plan.micro_batch, config.space.all_recomputed(config.plan.micro_batch, stages)
            )
    return None


def _swapped(config: AcesoConfig, target: int, grow_tp: bool) -> AcesoConfig | None:
    """The target with twice the one dimension and half of the other, on the devices it has."""
    stage, space = config.stages[target], config.space
    grown, halved = (stage.tp, stage.dp) if grow_tp else (stage.dp, stage.tp)
    if min(halved) == 1:
        return None
    doubled, half = tuple(2 * degree for degree in grown), tuple(degree // 2 for degree in halved)
    tp, dp = (doubled, half) if grow_tp else (half, doubled)
    changed = replace(stage, tp=tp, dp=dp)
    micro_batch = config.plan.micro_batch
    fits = max(tp) <= space.most_tp and all(micro_batch % degree == 0 for degree in dp)
    if not fits or not space.runnable(config.plan.cuts[target], changed, micro_batch):
        return None
    stages = [*config.stages[:target], changed, *config.stages[target + 1 :]]
    return space.config(micro_batch, space.all_recomputed(micro_batch, stages))


def _settled(
    config: AcesoConfig, target: tuple[int, str], partner: tuple[int, str], grow: bool
) -> list[ParallelStage] | None:
    """The stages after the exchange; several partners where one does not give or take as many devices as needed."""
    consumer, producer = (target, partner) if grow else (partner, target)
    given, wanted = config.stages[producer[0]].devices // 2, config.stages[consumer[0]].devices
    stages = list(config.stages)
    used = {target[0], partner[0]}
    once, many, growing = (producer, consumer, True) if given >= wanted else (consumer, producer, False)
    if not _apply(config, stages, *once, not growing):
        return None
    missing = given if growing else wanted
    current: tuple[int, str] | None = many
    while missing > 0 and current is not None:
        before = stages[current[0]].devices
        if not _apply(config, stages, *current, growing):
            return None
        missing -= abs(stages[current[0]].devices - before)
        used.add(current[0])
        current = _fastest_partner(config, used, growing, missing) if missing > 0 else None
    return stages if missing == 0 and _legal(config, stages) else None


def _apply(config: AcesoConfig, stages: list[ParallelStage], number: int, dim: str, grow: bool) -> bool:
    changed = _scaled(config, number, dim, grow)
    if changed is None:
        return False
    stages[number] = changed
    return True


def _fastest_partner(
    config: AcesoConfig, tried: set[int], grow: bool, most: int | None = None
) -> tuple[int, str] | None:
    """The stage and dimension whose stage time is predicted least after growing or shrinking."""
    best, best_us = None, float("inf")
    for number, stage in enumerate(config.stages):
        change = stage.devices if grow else stage.devices // 2
        if number in tried or (most is not None and change > most):
            continue
        for dim in ("tp", "dp"):
            changed = _scaled(config, number, dim, grow)
            if changed is None:
                continue
            start, later = config.plan.cuts[number], len(config.stages) - 1 - number
            ready = config.space.recomputed(start, changed, config.plan.micro_batch, later)
            time_us = config.space.estimate(start, ready, config.plan.micro_batch, later).time_us
            if time_us < best_us:
                best, best_us = (number, dim), time_us
    return best


def _scaled(config: AcesoConfig, number: int, dim: str, grow: bool) -> ParallelStage | None:
    """The stage with one dimension doubled or halved; None where that is not allowed or was not measured."""
    stage, space = config.stages[number], config.space
    total = space.problem.mesh.devices
    if grow and stage.devices * 2 > total - (len(config.stages) - 1):
        return None
    degrees = stage.tp if dim == "tp" else stage.dp
    if not grow and (stage.devices == 1 or min(degrees) == 1):
        return None
    changed = tuple(degree * 2 if grow else degree // 2 for degree in degrees)
    if dim == "tp" and max(changed) > space.most_tp:
        return None
    devices = stage.devices * 2 if grow else stage.devices // 2
    scaled = replace(stage, devices=devices, tp=changed) if dim == "tp" else replace(stage, devices=devices, dp=changed)
    return scaled if space.runnable(config.plan.cuts[number], scaled, config.plan.micro_batch) else None


def _legal(config: AcesoConfig, stages: list[ParallelStage]) -> bool:
    mesh, ends = config.space.problem.mesh, [0]
    for stage in stages:
        if stage.devices not in STAGE_DEVICES:
            return False
        ends.append(ends[-1] + stage.devices)
    return ends[-1] == mesh.devices and all(end in ends for end in range(0, mesh.devices + 1, mesh.per_node))


def _resized(config: AcesoConfig, step: int) -> AcesoConfig | None:
    """The next micro-batch up or down; every stage picks the best use of its devices anew."""
    sizes = config.space.micro_batches
    place = sizes.index(config.plan.micro_batch) + step
    if not 0 <= place < len(sizes):
        return None
    stages = list(config.stages)
    for number in range(len(stages)):
        picked = best_use(config.space, stages, number, sizes[place])
        if picked is None:
            return None
        stages[number] = picked
    return config.space.config(sizes[place], stages)


def best_use(space: Space, stages: list[ParallelStage], number: int, micro_batch: int) -> ParallelStage | None:
    """The split of a stage's devices with the least device-time; one that does not fit pays for its memory."""
    start, later = start_of(stages, number), len(stages) - 1 - number
    best, best_value = None, float("inf")
    for stage in _uses(space, stages[number], start, micro_batch):
        ready = space.recomputed(start, stage, micro_batch, later)
        cost = space.estimate(start, ready, micro_batch, later)
        value = cost.time_us / 1000 * stage.devices
        if cost.memory_mb > space.problem.mesh.memory_mb:
            value += 10 * cost.memory_mb
        if value < best_value:
            best, best_value = ready, value
    return best


def _uses(space: Space, stage: ParallelStage, start: int, micro_batch: int) -> Iterator[ParallelStage]:
    for tp in space.problem.tables.tp_degrees:
        dp = stage.devices // tp
        if tp > space.most_tp or tp * dp != stage.devices or micro_batch % dp:
            continue
        changed = replace(stage, tp=(tp,) * stage.ops, dp=(dp,) * stage.ops)
        if space.runnable(start, changed, micro_batch):
            yield changed
