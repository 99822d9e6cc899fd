"""Running a parallel plan: the planned split of a GPT, built from PyTorch's own DTensor, FSDP2 and pipelining.

``executable(plan)`` says why a plan cannot be run here (``None`` if it can); ``build(plan, shape)`` makes this
process's part of the model inside a process group; ``python -m penstock.runtime.parallel.check`` proves, at toy size
and with real processes, that a plan computes what the undivided model computes.
"""

from typing import TYPE_CHECKING, Any

from penstock.runtime.parallel.executable import executable

if TYPE_CHECKING:
    from penstock.runtime.parallel.gpt import GPTShape
    from penstock.runtime.parallel.planned import PlannedModel, build

__all__ = ["GPTShape", "PlannedModel", "build", "executable"]


def __getattr__(name: str) -> Any:
    """PyTorch is imported only by those who build, not by those who ask."""
    if name == "GPTShape":
        from penstock.runtime.parallel.gpt import GPTShape

        return GPTShape
    if name in ("PlannedModel", "build"):
        from penstock.runtime.parallel import planned

        return getattr(planned, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
