"""Models as files: an ``.npz`` with a JSON header that names its version, readable without running any of its code."""

import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core import InputError
from penstock.predict.hardware import Chip, Precision
from penstock.predict.kernels.error_bars import Spread
from penstock.predict.kernels.family import FamilyModel
from penstock.predict.kernels.layer_memory import Recall
from penstock.predict.kernels.physics import Physics
from penstock.predict.kernels.trees import Forest

_VERSION = 5
_HEADER = "header"
Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]


def write_model(path: Path, chip: Chip, families: Mapping[str, FamilyModel]) -> None:
    arrays: Arrays = {}
    header = {
        "version": _VERSION,
        "chip": asdict(chip),
        "families": {name: _take(name, model, arrays) for name, model in families.items()},
    }
    arrays[_HEADER] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def read_model(path: Path) -> tuple[Chip, dict[str, FamilyModel]]:
    arrays = _read_arrays(path)
    header = json.loads(arrays[_HEADER].tobytes())
    if header["version"] != _VERSION:
        raise InputError(
            f"{path} is a kernel model of version {header['version']}",
            f"version {_VERSION}",
            "Fit it again from its measurements",
        )
    chip = header["chip"]
    chip["peaks"] = tuple((Precision(name), rate) for name, rate in chip["peaks"])
    return Chip(**chip), {name: _build(name, told, arrays) for name, told in header["families"].items()}


def _read_arrays(path: Path) -> Arrays:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile) as problem:
        raise InputError(
            f"{path} cannot be read as a kernel model: {problem}", "a file KernelModel.save wrote"
        ) from None
    if _HEADER not in arrays:
        raise InputError(f"{path} has no header", "a file KernelModel.save wrote")
    return arrays


def _take(name: str, model: FamilyModel, arrays: Arrays) -> dict[str, Any]:
    """Put the model's arrays among ``arrays``; what is not an array is returned for the header."""
    arrays[f"{name}/fallback"] = model.fallback.log_coefficients
    for key, physics in model.physics.items():
        arrays[f"{name}/physics/{key}"] = physics.log_coefficients
    for number, forest in enumerate(_forests(model)):
        for column, values in _packed(forest).items():
            arrays[f"{name}/forest/{number}/{column}"] = values
    for place, part in _parts(model).items():
        for column in _columns(type(part)):
            arrays[f"{name}/{place}/{column}"] = getattr(part, column)
    return {
        "family": model.family,
        "physics": list(model.physics),
        "variants": dict(model.variants),
        "bases": [forest.base for forest in _forests(model)],
        "trust": model.trust,
        "feed": model.feed,
        **{place: place in _parts(model) for place in ("recall", "spread")},
    }


def _forests(model: FamilyModel) -> tuple[Forest, ...]:
    """Those of the usual time, the one of the mean last."""
    return (*model.usual, model.mean) if model.mean else ()


def _parts(model: FamilyModel) -> dict[str, Recall | Spread]:
    parts = {"recall": model.recall, "spread": model.spread}
    return {place: part for place, part in parts.items() if part is not None}


def _build(name: str, told: dict[str, Any], arrays: Arrays) -> FamilyModel:
    def part(kind: type, place: str) -> dict[str, Any]:
        return {column: arrays[f"{name}/{place}/{column}"] for column in _columns(kind)}

    forests = [
        _unpacked({each: arrays[f"{name}/forest/{number}/{each}"] for each in _PACKED}, base)
        for number, base in enumerate(told["bases"])
    ]
    return FamilyModel(
        family=told["family"],
        physics={key: Physics(arrays[f"{name}/physics/{key}"]) for key in told["physics"]},
        fallback=Physics(arrays[f"{name}/fallback"]),
        variants=told["variants"],
        usual=tuple(forests[:-1]),
        mean=forests[-1] if forests else None,
        trust=told["trust"],
        feed=told["feed"],
        recall=Recall(**part(Recall, "recall")) if told["recall"] else None,
        spread=Spread(**part(Spread, "spread")) if told["spread"] else None,
    )


_PACKED = ("feature", "number", "skip", "roots")


def _packed(forest: Forest) -> Arrays:
    """Smaller: where a node sends rows is stored as how far ahead that is."""
    skip = (forest.right - np.arange(len(forest.right))).astype(np.uint16)
    return {"feature": forest.feature, "number": forest.number, "skip": skip, "roots": forest.roots}


def _unpacked(arrays: Arrays, base: float) -> Forest:
    right = (np.arange(len(arrays["skip"])) + arrays["skip"]).astype(np.int32)
    return Forest(
        feature=arrays["feature"], number=arrays["number"], right=right, roots=arrays["roots"], base=base
    )  # fmt: skip


def _columns(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
