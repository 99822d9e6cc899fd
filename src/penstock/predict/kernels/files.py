"""Kernel models as files: an ``.npz`` with a JSON header that names its version, readable without running its code.

Version 6 packs forests and layer memories (see :mod:`penstock.predict.kernels.packing`); version 5, which holds their
arrays as they are, is still read.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core import InputError
from penstock.predict.array_files import NamedArrays, read_arrays, write_arrays
from penstock.predict.hardware import Chip, Precision
from penstock.predict.kernels.error_bars import ErrorBars
from penstock.predict.kernels.family import FamilyModel
from penstock.predict.kernels.layer_memory import LayerMemory, shortened
from penstock.predict.kernels.packing import Arrays, packed_forest, packed_memory, unpacked_forest, unpacked_memory
from penstock.predict.kernels.physics import Physics
from penstock.predict.kernels.trees import Forest
from penstock.tools import atomic_file

_VERSION = 6
_HEADER = "header"
_WANTED = "a file KernelModel.save wrote"
_MEMORY, _BARS = "recall", "spread"
"""Where layer memories and error bars lie in a file: older names, kept so that older files can be read."""


def write_model(path: Path, chip: Chip, families: Mapping[str, FamilyModel]) -> None:
    arrays: NamedArrays = {}
    for name, model in families.items():
        arrays |= {f"{name}/{place}": values for place, values in _arrays_of(model).items()}
    header = {
        "version": _VERSION,
        "chip": asdict(chip),
        "families": {name: _header_of(model) for name, model in families.items()},
    }
    arrays[_HEADER] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with atomic_file(path) as file:
        write_arrays(file, arrays)


def read_model(path: Path) -> tuple[Chip, dict[str, FamilyModel]]:
    """Of any version that is still read; what is damaged or newer is refused."""
    arrays = _read_arrays(path)
    try:
        header = json.loads(arrays[_HEADER].tobytes())
        version = int(header["version"])
        if version in _READERS:
            return _read_chip(header["chip"]), _read_families(header["families"], arrays, version)
    except (ValueError, KeyError, TypeError, IndexError) as problem:
        raise InputError(
            f"{path} is damaged: {type(problem).__name__} {problem}", _WANTED,
            "Fit it again from its measurements",
        ) from None  # fmt: skip
    raise InputError(
        f"{path} is a kernel model of version {version}",
        f"versions {min(_READERS)} to {_VERSION}",
        "Upgrade Penstock" if version > _VERSION else "Fit it again from its measurements",
    )


def _read_arrays(path: Path) -> Arrays:
    arrays = read_arrays(path, what="a kernel model", wanted=_WANTED)
    if _HEADER not in arrays:
        raise InputError(f"{path} has no header", _WANTED)
    return arrays


def _read_chip(about: dict[str, Any]) -> Chip:
    return Chip(**about | {"peaks": tuple((Precision(name), rate) for name, rate in about["peaks"])})


def _read_families(headers: dict[str, Any], arrays: Arrays, version: int) -> dict[str, FamilyModel]:
    by_family: dict[str, dict[str, Any]] = {name: {} for name in headers}
    for place, values in arrays.items():
        name, _, rest = place.partition("/")
        if name in by_family:
            by_family[name][rest] = values
    return {name: _family(header, by_family[name], version) for name, header in headers.items()}


def _header_of(model: FamilyModel) -> dict[str, Any]:
    """What is not an array."""
    return {
        "family": model.family,
        "physics": list(model.physics),
        "variants": dict(model.variants),
        "bases": [forest.base for forest in _forests(model)],
        _MEMORY: model.layer_memory is not None,
        _BARS: model.error_bars is not None,
    }


def _arrays_of(model: FamilyModel) -> Arrays:
    parts: dict[str, Arrays] = {
        f"forest/{number}": packed_forest(forest) for number, forest in enumerate(_forests(model))
    }
    if model.layer_memory:
        parts[_MEMORY] = packed_memory(model.layer_memory)
    if bars := model.error_bars:
        references = bars.references.astype(np.float32)
        parts[_BARS] = {"references": references, "distances": bars.distances, "widths": bars.widths}
    parts["physics"] = {key: physics.log_coefficients for key, physics in model.physics.items()}
    arrays = {f"{place}/{column}": values for place, part in parts.items() for column, values in part.items()}
    return arrays | {"fallback": model.fallback.log_coefficients}


def _forests(model: FamilyModel) -> tuple[Forest, ...]:
    """Those of the usual time, the one of the mean last."""
    return (*model.usual, model.mean) if model.mean else ()


def _family(header: dict[str, Any], arrays: Arrays, version: int) -> FamilyModel:
    def part(place: str) -> Arrays:
        return {at.removeprefix(f"{place}/"): array for at, array in arrays.items() if at.startswith(f"{place}/")}

    read_forest, read_memory = _READERS[version]
    forests = [read_forest(part(f"forest/{number}"), base) for number, base in enumerate(header["bases"])]
    return FamilyModel(
        family=header["family"],
        physics={key: Physics(arrays[f"physics/{key}"]) for key in header["physics"]},
        fallback=Physics(arrays["fallback"]),
        variants=header["variants"],
        usual=tuple(forests[:-1]),
        mean=forests[-1] if forests else None,
        layer_memory=read_memory(part(_MEMORY)) if header[_MEMORY] else None,
        error_bars=_error_bars(part(_BARS)) if header[_BARS] else None,
    )


def _error_bars(arrays: Arrays) -> ErrorBars:
    return ErrorBars(**{column: arrays[column].astype(float) for column in ("references", "distances", "widths")})


def _forest_of_version_5(arrays: Arrays, base: float) -> Forest:
    right = (np.arange(len(arrays["skip"])) + arrays["skip"]).astype(np.int32)
    return Forest(
        feature=arrays["feature"], number=arrays["number"], right=right, roots=arrays["roots"], base=base
    )  # fmt: skip


def _memory_of_version_5(arrays: Arrays) -> LayerMemory:
    return LayerMemory(layers=shortened(arrays["layers"]), sizes=arrays["sizes"], off=arrays["off"])


_READERS: dict[int, tuple[Callable[[Arrays, float], Forest], Callable[[Arrays], LayerMemory]]] = {
    5: (_forest_of_version_5, _memory_of_version_5),
    6: (unpacked_forest, unpacked_memory),
}
