"""Python values as bytes and back, without pickles: JSON for the structure, raw bytes behind it for tensors.

The bytes are the length of a JSON header, the header, and the *buffers* that the header points into. Plain JSON values
stand for themselves; every other type is an object with the key ``$``. Decoding creates values of the types listed here
and calls nothing else, and the bytes do not depend on the versions of Python and PyTorch that wrote them.
"""

import json
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock.core import CodecError

_LENGTH = 8
_LARGEST_HEADER = 1 << 30
_TAG = "$"
_ALLOWED = "numbers, text, bytes, lists, tuples, sets, dictionaries, tensors and arrays"


def encode(value: Any) -> bytes:
    """Return the bytes of a value; a :class:`CodecError` names the part of it that cannot be encoded."""
    buffers = bytearray()
    try:
        header = json.dumps(_encoded(value, "", buffers), separators=(",", ":"), allow_nan=False).encode()
    except RecursionError:
        raise CodecError("the value is nested too deeply or contains itself") from None
    return len(header).to_bytes(_LENGTH, "little") + header + bytes(buffers)


def decode(content: bytes | bytearray | memoryview) -> Any:
    """Return the value that :func:`encode` was given; a :class:`CodecError` for any other bytes."""
    view = memoryview(content)
    length = int.from_bytes(view[:_LENGTH], "little")
    if len(view) < _LENGTH or not 0 < length <= min(len(view) - _LENGTH, _LARGEST_HEADER):
        raise CodecError(f"{len(view)} bytes with a header of {length}")
    buffers = view[_LENGTH + length :]
    try:
        return _decoded(json.loads(bytes(view[_LENGTH : _LENGTH + length])), buffers)
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError, RecursionError, OverflowError) as error:
        raise CodecError(f"not an encoded value: {type(error).__name__}: {error}") from None


def _encoded(value: Any, path: str, buffers: bytearray) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
        return value
    if kind is list:
        return _items(value, path, buffers)
    if kind is dict and all(type(key) is str for key in value) and _TAG not in value:
        return {key: _encoded(item, f"{path}.{key}", buffers) for key, item in value.items()}
    return {_TAG: _tag(value, path), **_fields(value, path, buffers)}


def _tag(value: Any, path: str) -> str:
    if isinstance(value, torch.Tensor):
        return "tensor"
    if isinstance(value, np.generic):
        return "scalar"
    for name, kind in _KINDS.items():
        if type(value) is kind:
            return name
    raise _refused(path, f"{type(value).__module__}.{type(value).__qualname__}")


def _refused(path: str, kind: str) -> CodecError:
    return CodecError(f"{path.lstrip('.') or 'the value'} is a {kind}, which cannot be saved. Allowed: {_ALLOWED}")


def _fields(value: Any, path: str, buffers: bytearray) -> dict[str, Any]:
    match value:
        case torch.Tensor():
            flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            said = {"dtype": _name(value.dtype), "shape": list(value.shape), **_buffer(flat.data, buffers)}
            return said if value.device.type == "cpu" else {**said, "device": value.device.type}
        case np.ndarray() | np.generic():
            if value.dtype.hasobject or value.dtype.fields is not None:
                raise _refused(path, f"array of {value.dtype}")
            content = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
            return {"dtype": value.dtype.str, "shape": list(value.shape), **_buffer(content.data, buffers)}
        case bytes() | bytearray():
            return _buffer(memoryview(value), buffers)
        case float():
            return {"value": repr(value)}
        case complex():
            return {"value": [_encoded(part, path, buffers) for part in (value.real, value.imag)]}
        case torch.dtype():
            return {"value": _name(value)}
        case torch.device():
            return {"value": str(value)}
        case deque():
            return {"value": _items(value, path, buffers), "most": value.maxlen}
        case dict():
            pairs = [(key, f"{path}.{key}", item) for key, item in value.items()]
            return {"value": [[_encoded(key, at, buffers), _encoded(item, at, buffers)] for key, at, item in pairs]}
        case _:
            return {"value": _items(value, path, buffers)}


def _items(values: Any, path: str, buffers: bytearray) -> list[Any]:
    return [_encoded(item, f"{path}[{index}]", buffers) for index, item in enumerate(values)]


def _buffer(content: memoryview, buffers: bytearray) -> dict[str, int]:
    at = len(buffers)
    buffers += content
    return {"at": at, "bytes": content.nbytes}


def _decoded(said: Any, buffers: memoryview) -> Any:
    if isinstance(said, list):
        return [_decoded(item, buffers) for item in said]
    if not isinstance(said, dict):
        return said
    if _TAG not in said:
        return {key: _decoded(item, buffers) for key, item in said.items()}
    return _READERS[said[_TAG]](said, buffers)


def _content(said: dict[str, Any], buffers: memoryview) -> bytearray:
    """A copy: what is decoded may be changed, and outlives the bytes it came from."""
    at, size = said["at"], said["bytes"]
    if not (isinstance(at, int) and isinstance(size, int) and 0 <= at <= at + size <= len(buffers)):
        raise ValueError(f"bytes {at!r} to {size!r} of {len(buffers)}")
    return bytearray(buffers[at : at + size])


def _tensor(said: dict[str, Any], buffers: memoryview) -> torch.Tensor:
    content, dtype = _content(said, buffers), dtype_named(said["dtype"])
    shape = [int(side) for side in said["shape"]]
    if min([*shape, 0]) < 0 or math.prod(shape) * dtype.itemsize != len(content):
        raise ValueError(f"a tensor of {shape} and {dtype} in {len(content)} bytes")
    found = torch.frombuffer(content, dtype=dtype).view(shape) if content else torch.empty(shape, dtype=dtype)
    device = str(said.get("device", "cpu"))
    return found.to(device) if device != "cpu" and torch.get_device_module(device).is_available() else found


def _array(said: dict[str, Any], buffers: memoryview) -> Any:
    dtype = np.dtype(str(said["dtype"]))
    if dtype.hasobject:
        raise ValueError(f"an array of {dtype}")
    return np.frombuffer(_content(said, buffers), dtype=dtype).reshape([int(side) for side in said["shape"]])


def dtype_named(name: Any) -> torch.dtype:
    """Return the type of tensors with this name; a ValueError if there is none."""
    found = getattr(torch, str(name), None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"{name!r} is no type of tensors")
    return found


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _list_of(make: Callable[[Any], Any]) -> Callable[[dict[str, Any], memoryview], Any]:
    return lambda said, buffers: make(_decoded(item, buffers) for item in said["value"])


def _pairs_of(make: Callable[[Any], Any]) -> Callable[[dict[str, Any], memoryview], Any]:
    return lambda said, buffers: make({_decoded(key, buffers): _decoded(item, buffers) for key, item in said["value"]})


_KINDS: dict[str, type] = {
    "tuple": tuple, "set": set, "frozenset": frozenset, "dict": dict, "ordered": OrderedDict, "counter": Counter,
    "deque": deque, "size": torch.Size, "bytes": bytes, "bytearray": bytearray, "float": float, "complex": complex,
    "dtype": torch.dtype, "device": torch.device, "array": np.ndarray,
}  # fmt: skip
_READERS: dict[str, Callable[[dict[str, Any], memoryview], Any]] = {
    "tuple": _list_of(tuple), "set": _list_of(set), "frozenset": _list_of(frozenset), "size": _list_of(torch.Size),
    "dict": _pairs_of(dict), "ordered": _pairs_of(OrderedDict), "counter": _pairs_of(Counter),
    "deque": lambda said, buffers: deque((_decoded(item, buffers) for item in said["value"]), said["most"]),
    "bytes": lambda said, buffers: bytes(_content(said, buffers)),
    "bytearray": _content,
    "float": lambda said, _: float(said["value"]),
    "complex": lambda said, buffers: complex(*(_decoded(part, buffers) for part in said["value"])),
    "dtype": lambda said, _: dtype_named(said["value"]),
    "device": lambda said, _: torch.device(said["value"]),
    "tensor": _tensor,
    "array": _array,
    "scalar": lambda said, buffers: _array(said, buffers)[()],
}  # fmt: skip
