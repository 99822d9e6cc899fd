"""``.npz`` files that may be damaged: read whole, without running anything in them, or refused in one sentence."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core import InputError

NamedArrays = dict[str, np.ndarray[Any, np.dtype[Any]]]


def read_arrays(path: Path, *, what: str, wanted: str) -> NamedArrays:
    """All arrays of a file. ``what`` it should hold and which files are ``wanted`` go into the refusal."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile, zlib.error) as problem:
        raise InputError(f"{path} cannot be read as {what}: {problem}", wanted) from None
