"""Checkpoints that do not know the plan they were made under: every weight whole, by name, with its optimizer state.

A run that gets more or fewer devices goes on under another plan: other stages, other splits, other owners of optimizer
state. So what is saved is what the undivided model would have. Each process writes the weights it speaks for into a
file of its own; the first one adds a manifest and gives the folder its name, so that a half-written checkpoint is never
found. Reading takes from all files what the new plan needs here.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

from penstock.runtime.parallel.optimizer import PlannedOptimizer
from penstock.runtime.parallel.planned import PlannedModel
from penstock.tools import sync_directory, write_atomically

WEIGHT = "weight"
_MANIFEST, _UNFINISHED = "manifest.json", ".unfinished"
_KEPT = 2
"""Checkpoints that stay: the newest, and one before it."""


@dataclass(frozen=True, slots=True)
class FullState:
    """What was saved after ``step`` steps: by parameter, its weight and what the optimizer keeps beside it."""

    step: int
    tensors: dict[str, dict[str, Tensor]]

    def weights(self) -> dict[str, Tensor]:
        return self.named(WEIGHT)

    def named(self, what: str) -> dict[str, Tensor]:
        return {name: saved[what] for name, saved in self.tensors.items()}


def save(folder: Path, step: int, model: PlannedModel, optimizer: PlannedOptimizer) -> Path:
    """Write a checkpoint; every process of the group calls it."""
    target = folder / f"step-{step:09d}"
    unfinished = folder / (target.name + _UNFINISHED)
    if dist.get_rank() == 0:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
    dist.barrier()
    spoken_for = _gathered(model, optimizer)
    if spoken_for:
        torch.save(spoken_for, unfinished / f"part-{dist.get_rank():05d}.pt")
    dist.barrier()
    if dist.get_rank() == 0:
        files = sorted(path.name for path in unfinished.glob("part-*.pt"))
        write_atomically(unfinished / _MANIFEST, json.dumps({"step": step, "files": files}), durable=True)
        shutil.rmtree(target, ignore_errors=True)
        unfinished.rename(target)
        sync_directory(folder)
        _prune(folder)
    dist.barrier()
    return target


def newest(folder: Path) -> FullState | None:
    """The newest whole checkpoint, its tensors read from the disk as they are asked for; None if there is none."""
    for path in sorted(folder.glob("step-*"), reverse=True):
        if (path / _MANIFEST).is_file():
            manifest = json.loads((path / _MANIFEST).read_text(encoding="utf-8"))
            tensors: dict[str, dict[str, Tensor]] = {}
            for file in manifest["files"]:
                tensors |= torch.load(path / file, map_location="cpu", mmap=True, weights_only=True)
            return FullState(int(manifest["step"]), tensors)
    return None


def restore(saved: FullState, model: PlannedModel, optimizer: PlannedOptimizer) -> None:
    """Give the optimizer the saved state of the weights it keeps here; the weights came with :func:`build`."""
    parameters = dict(model.named_parameters())
    names = {what for held in saved.tensors.values() for what, value in held.items() if value.dim()} - {WEIGHT}
    placed = {what: model.placed(saved.named(what)) for what in sorted(names)}
    for name, parameter in parameters.items():
        state = {what: parts[name] for what, parts in placed.items()}
        scalars = {what: value.clone() for what, value in saved.tensors[name].items() if not value.dim()}
        if state or scalars:
            optimizer.restore(parameter, scalars | state)


def _gathered(model: PlannedModel, optimizer: PlannedOptimizer) -> dict[str, dict[str, Tensor]]:
    """The whole tensors this process speaks for; everybody with a part takes part in putting them together."""
    found = {}
    for number, (name, parameter) in enumerate(model.named_parameters()):
        state: dict[str, Any] = {WEIGHT: parameter.detach(), **(optimizer.state_of(parameter) or {})}
        whole = {what: _whole(value) for what, value in state.items() if isinstance(value, Tensor)}
        if optimizer.leads(number):
            found[name] = {what: value.cpu().clone() for what, value in whole.items()}
    return found


def _whole(value: Tensor) -> Tensor:
    return value.full_tensor() if isinstance(value, DTensor) else value


def _prune(folder: Path) -> None:
    for path in sorted(folder.glob("step-*"), reverse=True)[_KEPT:]:
        shutil.rmtree(path, ignore_errors=True)
