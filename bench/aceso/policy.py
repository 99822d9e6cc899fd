"""Which primitives to try on a bottleneck, in which order: by the resource it uses more than its share of."""

from collections.abc import Callable

from bench.aceso.config import AcesoConfig
from bench.aceso.primitives import PRIMITIVES, Effect, Primitive

Test = Callable[[Primitive], bool]


def groups(config: AcesoConfig, stage: int, primitives: tuple[Primitive, ...] = PRIMITIVES) -> list[list[Primitive]]:
    """Ordered groups of ``primitives``; each once.

    While something does not fit, whatever lowers memory. Else computation, splitting loss and recomputation of the
    stage are compared with those of all stages, and the largest share is fought first: by what lowers it without
    raising another resource the stage is short of, then by anything that lowers it.
    """
    if not config.fits:
        return [[one for one in primitives if one.memory is Effect.LESS]]
    ordered: list[list[Primitive]] = []
    for lowers, spares in _fights(config, stage):
        for test in (lambda one, a=lowers, b=spares: a(one) and b(one), lowers):
            known = {one.name for group in ordered for one in group}
            ordered.append([one for one in primitives if one.name not in known and test(one)])
    known = {one.name for group in ordered for one in group}
    return [*ordered, [one for one in primitives if one.name not in known]]


def _fights(config: AcesoConfig, stage: int) -> list[tuple[Test, Test]]:
    computes_much = config.ideal_ms[stage] > _mean(config.ideal_ms)
    loses_much = config.loss_ms[stage] > _mean(config.loss_ms)
    recomputes = config.recompute_ms[stage] > 0

    def no_more_computation(one: Primitive) -> bool:
        return not computes_much or one.computation is not Effect.MORE

    def no_more_communication(one: Primitive) -> bool:
        return not loses_much or one.communication is not Effect.MORE

    def no_more_memory(one: Primitive) -> bool:
        return not recomputes or one.memory is not Effect.MORE

    fights: list[tuple[float, Test, Test]] = [
        (
            _share(config.ideal_ms, stage),
            lambda one: one.computation is Effect.LESS,
            lambda one: no_more_communication(one) and no_more_memory(one),
        ),
        (
            _share(config.loss_ms, stage),
            lambda one: one.communication is Effect.LESS,
            lambda one: no_more_computation(one) and no_more_memory(one),
        ),
        (
            _share(config.recompute_ms, stage),
            lambda one: one.memory is Effect.LESS,
            lambda one: no_more_computation(one) and no_more_communication(one),
        ),
    ]
    return [(lowers, spares) for _, lowers, spares in sorted(fights, key=lambda fight: -fight[0])]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _share(values: list[float], stage: int) -> float:
    total = sum(values)
    return values[stage] / total if values[stage] > 0 and total else 0.0
