"""Plans in the words of trainers: Megatron-LM, torchtitan, DeepSpeed."""

from collections.abc import Callable

from penstock.core import UnknownNameError, is_plugin, load_plugin
from penstock.parallel.devices import ChipMesh
from penstock.parallel.exports.common import Exported
from penstock.parallel.exports.deepspeed import deepspeed
from penstock.parallel.exports.megatron import megatron
from penstock.parallel.exports.torchtitan import torchtitan
from penstock.parallel.families import Family
from penstock.parallel.planning.candidates import Candidate, Planned

TRAINERS: dict[str, Callable[[Candidate, Family, ChipMesh], Exported]] = {
    "deepspeed": deepspeed,
    "megatron": megatron,
    "torchtitan": torchtitan,
}


def export(planned: Planned, trainer: str, *, uniform: bool = False) -> Exported:
    """The plan (or the best uniform one) as ``trainer`` reads it; what it cannot run is refused with the reason."""
    write = load_plugin("export", trainer) if is_plugin(trainer) else TRAINERS.get(trainer)
    if write is None:
        raise UnknownNameError.of("trainer", trainer, TRAINERS, "An export of your own is named module:function")
    candidate = planned.uniform if uniform and planned.uniform is not None else planned.best
    return write(candidate, planned.family, planned.mesh)


__all__ = ["TRAINERS", "Exported", "deepspeed", "export", "megatron", "torchtitan"]
