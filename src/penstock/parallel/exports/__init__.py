"""Plans in the words of trainers: Megatron-LM, torchtitan, DeepSpeed."""

from collections.abc import Callable

from penstock.core import UnknownNameError
from penstock.parallel.devices.clusters import PlanCluster
from penstock.parallel.exports.common import Exported
from penstock.parallel.exports.deepspeed import deepspeed
from penstock.parallel.exports.megatron import megatron
from penstock.parallel.exports.torchtitan import torchtitan
from penstock.parallel.families import Family
from penstock.parallel.planner import Candidate, Planned

TRAINERS: dict[str, Callable[[Candidate, Family, PlanCluster], Exported]] = {
    "deepspeed": deepspeed,
    "megatron": megatron,
    "torchtitan": torchtitan,
}


def export(planned: Planned, trainer: str, *, uniform: bool = False) -> Exported:
    """The plan (or the best uniform one) as ``trainer`` reads it; what it cannot run is refused with the reason."""
    if trainer not in TRAINERS:
        raise UnknownNameError.of("trainer", trainer, TRAINERS)
    candidate = planned.uniform if uniform and planned.uniform is not None else planned.best
    return TRAINERS[trainer](candidate, planned.family, planned.cluster)


__all__ = ["TRAINERS", "Exported", "deepspeed", "export", "megatron", "torchtitan"]
