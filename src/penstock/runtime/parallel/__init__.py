"""Running a parallel plan: the planned split of a GPT, built from PyTorch's own DTensor, FSDP2 and pipelining.

``build(plan, shape)`` makes this process's part of the model inside a process group; ``python -m
penstock.runtime.parallel.check`` proves, at toy size and with real processes, that a plan computes what the undivided
model computes; ``python -m penstock.runtime.parallel.train`` trains under one. Which plans can be run at all,
:func:`penstock.core.why_not_executable` says.
"""

from typing import TYPE_CHECKING

from penstock.tools import lazy_door

if TYPE_CHECKING:
    from penstock.runtime.parallel.gpt import GPTShape
    from penstock.runtime.parallel.planned import PlannedModel, build

__all__ = ["GPTShape", "PlannedModel", "build"]

__getattr__ = lazy_door(__name__)
