"""Files of the safetensors format: a length, a JSON header that says which tensor lies where, then their bytes.

The format is public (github.com/huggingface/safetensors); this is a reader and a writer of our own. Nothing in such a
file is run, and a header that points outside of its file, or to bytes that do not fit their shape, is refused.
"""

import json
import math
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from penstock.core import InputError
from penstock.tools import atomic_file

_LENGTH = 8
_LARGEST_HEADER = 100 << 20
_METADATA = "__metadata__"
_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def write_safetensors(path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors to a file, which is there whole or not at all."""
    header: dict[str, Any] = {_METADATA: dict(metadata)}
    end = 0
    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES:
            raise InputError(f"{name!r} of type {tensor.dtype}", f"one of {', '.join(map(str, _NAMES))}", "Convert it")
        begin, end = end, end + tensor.nbytes
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH)
    with atomic_file(path, durable=True) as file:
        file.write(len(text).to_bytes(_LENGTH, "little") + text)
        for tensor in tensors.values():
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            file.write(flat.view(torch.uint8).numpy().data)


def read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a file, their bytes read when they are used."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH), "little")
        if not 0 < length <= min(size - _LENGTH, _LARGEST_HEADER):
            raise _refused(path, f"a header of {length} bytes in a file of {size}")
        header = _header(path, file.read(length))
        start = _LENGTH + length
        content = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE) if size > start else bytearray(start)
    return {name: _tensor(path, name, entry, content, start, size) for name, entry in header.items()}


def _header(path: Path, text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except ValueError as error:
        raise _refused(path, f"a header that is no JSON ({error})") from None
    if not isinstance(header, dict):
        raise _refused(path, "a header that is no mapping")
    header.pop(_METADATA, None)
    return header


def _tensor(path: Path, name: str, entry: Any, content: Any, start: int, size: int) -> torch.Tensor:
    try:
        dtype, shape = _DTYPES[entry["dtype"]], [int(side) for side in entry["shape"]]
        begin, end = (int(at) for at in entry["data_offsets"])
    except (KeyError, TypeError, ValueError):
        raise _refused(path, f"a tensor {name!r} that says {entry!r}") from None
    count = math.prod(shape)
    if min([*shape, 0]) < 0 or not 0 <= begin <= end <= size - start or end - begin != count * dtype.itemsize:
        raise _refused(path, f"a tensor {name!r} of shape {shape} in bytes {begin} to {end}")
    if not count:
        return torch.empty(shape, dtype=dtype)
    flat = torch.frombuffer(content, dtype=torch.uint8, count=end - begin, offset=start + begin)
    aligned = flat if (start + begin) % dtype.itemsize == 0 else flat.clone()
    return aligned.view(dtype).view(shape)


def files_of(directory: Path, index: str, single: str) -> list[Path]:
    """The files of a directory that hold its tensors: those its index names, or the only one."""
    if (directory / index).is_file():
        try:
            names = sorted(set(json.loads((directory / index).read_text())["weight_map"].values()))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _refused(directory / index, f"no index of tensors ({error})") from None
        if any(os.path.basename(name) != name for name in names):
            raise _refused(directory / index, "names of files elsewhere")
        return [directory / name for name in names]
    return [directory / single]


def _refused(path: Path, what: str) -> InputError:
    return InputError(f"{path} has {what}", "a file of the safetensors format", "Write or download it again")
