"""Weights of a checkpoint as a directory that Hugging Face's libraries read, and back.

Such a directory has files of bounded size in the safetensors format, an index that says which tensor is in which, and
``config.json``. One file's tensors are in memory at a time.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from penstock.core import InputError
from penstock.runtime.checkpoints.checkpoint import Checkpoints
from penstock.runtime.checkpoints.exchange.names import Family, NameRow, family_named
from penstock.runtime.checkpoints.exchange.safetensors import files_of, read_safetensors, write_safetensors
from penstock.runtime.checkpoints.exchange.saved_weights import SavedWeights, empty_target
from penstock.tools import write_atomically

INDEX, SINGLE, CONFIG = "model.safetensors.index.json", "model.safetensors", "config.json"
_LARGEST_FILE = 5_000_000_000
_METADATA = {"format": "pt"}


def export_weights(
    location: str | Path,
    directory: str | Path,
    *,
    hf: str | None = None,
    config: Mapping[str, Any] | None = None,
    step: int | None = None,
    model: str = "model",
    file_bytes: int = _LARGEST_FILE,
) -> int:
    """Write the weights of the newest checkpoint, or of the one of ``step``, and return its step.

    ``hf`` names the family whose names they get (``llama``, ``gpt2``); without it they keep their own. ``config`` is
    what ``config.json`` says beside what shapes of weights tell; without a family it is all of it.
    """
    family = family_named(hf) if hf is not None else None
    target = empty_target(directory)
    with SavedWeights.of(Checkpoints(location), step, model) as saved:
        theirs = {name: _forth(family, name) for name in saved.shapes}
        settings = dict(config or {}) if family is None else _config(family, saved, theirs, config or {})
        target.mkdir(parents=True, exist_ok=True)
        _write(target, saved, theirs, file_bytes)
        if settings:
            write_atomically(target / CONFIG, json.dumps(settings, indent=2) + "\n", durable=True)
        return saved.step


def read_weights(directory: str | Path) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a directory by the names they have there."""
    folder = Path(directory)
    for path in files_of(folder, INDEX, SINGLE):
        if not path.is_file():
            raise InputError(
                f"no {path.name} in {folder}", f"a directory with {SINGLE}, or with {INDEX} and the files it names",
                "Download it whole",
            )  # fmt: skip
        yield from read_safetensors(path).items()


@torch.no_grad()
def import_weights(module: nn.Module, directory: str | Path, *, hf: str | None = None) -> None:
    """Give a model the weights of a directory, all of them; call it before ``run.wrap``.

    Nothing is changed where a weight is missing, is not known, or has another shape.
    """
    family = family_named(hf) if hf is not None else None
    own = module.state_dict(keep_vars=True)
    coming = dict(_back(family, name, tensor, own) for name, tensor in read_weights(directory))
    missing = [name for name in own if name not in coming and not _is_tied(name, own, coming)]
    if missing:
        raise InputError(f"{directory} without the weight {missing[0]!r}", "all weights of the model", _NEXT)
    for name, tensor in coming.items():
        if tensor.shape != own[name].shape:
            given = f"{name!r} of shape {list(tensor.shape)}, {list(own[name].shape)} in the model"
            raise InputError(given, "the same shapes", _NEXT)
    for name, tensor in coming.items():
        own[name].copy_(tensor)


_NEXT = "Make the model with the sizes that config.json says"


def _forth(family: Family | None, name: str) -> tuple[NameRow, str]:
    return (NameRow(name, name), name) if family is None else family.row_of(name)


def _back(
    family: Family | None, name: str, tensor: torch.Tensor, own: Mapping[str, torch.Tensor]
) -> tuple[str, torch.Tensor]:
    found = (NameRow(name, name), name) if family is None and name in own else None
    found = family.row_back(name, own) if family is not None else found
    if found is None:
        raise InputError(f"a weight {name!r}, which the model does not have", "weights of the model", _NEXT)
    return found[1], tensor.T if found[0].transposed else tensor


def _is_tied(name: str, own: Mapping[str, torch.Tensor], coming: Iterable[str]) -> bool:
    """Whether a weight is the same memory as one that comes: an embedding that is also the last layer."""
    return any(own[other].data_ptr() == own[name].data_ptr() for other in coming)


def _config(
    family: Family, saved: SavedWeights, theirs: Mapping[str, tuple[NameRow, str]], given: Mapping[str, Any]
) -> dict[str, Any]:
    shapes = {name: _shape(row, saved.shapes[ours]) for ours, (row, name) in theirs.items()}
    key, weight = family.layers
    layers = sum(re.fullmatch(re.escape(weight).replace(re.escape("{i}"), r"\d+"), name) is not None for name in shapes)
    sizes = {size: shapes[name][side] for size, (name, side) in family.sizes.items() if name in shapes}
    known = {"architectures": [family.architecture], "model_type": family.model_type, **sizes, key: layers}
    missing = [name for name in family.needed if name not in given]
    if missing:
        raise InputError(
            f"{family.architecture} without {' and '.join(missing)}, which no shape tells",
            "a configuration with them", f'Give it: {{"{missing[0]}": 8}} in a file for --config',
        )  # fmt: skip
    return {**known, "tie_word_embeddings": "lm_head.weight" not in shapes, **given}


def _shape(row: NameRow, shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[::-1] if row.transposed else shape


def _write(target: Path, saved: SavedWeights, theirs: Mapping[str, tuple[NameRow, str]], file_bytes: int) -> None:
    groups = list(_filled(saved.sizes, file_bytes))
    weight_map: dict[str, str] = {}
    for number, names in enumerate(groups, 1):
        file = SINGLE if len(groups) == 1 else f"model-{number:05d}-of-{len(groups):05d}.safetensors"
        tensors = saved.read(names)
        out = {theirs[name][1]: tensors[name].T if theirs[name][0].transposed else tensors[name] for name in names}
        write_safetensors(target / file, out, _METADATA)
        weight_map |= dict.fromkeys(out, file)
    if len(groups) > 1:
        index = {"metadata": {"total_size": sum(saved.sizes.values())}, "weight_map": weight_map}
        write_atomically(target / INDEX, json.dumps(index, indent=2) + "\n", durable=True)


def _filled(sizes: Mapping[str, int], most: int) -> Iterator[list[str]]:
    """Neighbours together, up to so many bytes a file."""
    group: list[str] = []
    for name, size in sizes.items():
        if group and sum(sizes[one] for one in group) + size > most:
            yield group
            group = []
        group.append(name)
    if group:
        yield group
