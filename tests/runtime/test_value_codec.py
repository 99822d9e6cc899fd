"""Values survive their encoding exactly, and bytes that are no encoding are rejected without running anything."""

import contextlib
import json
import math
import pickle
from collections import Counter, OrderedDict, deque
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import CodecError
from penstock.runtime.value_codec import decode, encode

_PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
_KEYS = st.text() | st.integers() | st.tuples(st.integers(), st.text())
_VALUES = st.recursive(
    _PLAIN, lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(_KEYS, inner), max_leaves=20
)


@given(_VALUES)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    back = decode(encode(value))
    assert back == value
    assert repr(back) == repr(value), "types and order too"


@pytest.mark.parametrize(
    "value",
    [
        OrderedDict(b=1, a=2), Counter("hello"), deque([1, 2], maxlen=3), {1, 2}, frozenset({"a"}), torch.Size([2, 3]),
        torch.bfloat16, torch.device("cuda:1"), 1 + 2j, bytearray(b"x"), -math.inf, 0.1 + 0.2, {"$": "tensor"},
        {None: 1, True: 2}, 10**300, np.float32(0.1), np.int64(-3), np.bool_(True),
    ],
    ids=repr,
)  # fmt: skip
def test_other_types_come_back_as_they_were(value: Any) -> None:
    back = decode(encode([value]))[0]
    assert type(back) is type(value)
    assert back == value


def test_not_a_number_comes_back() -> None:
    assert math.isnan(decode(encode(math.nan)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_tensors_come_back_bit_for_bit_and_may_be_changed(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    value = torch.arange(math.prod(shape)).reshape(shape).to(dtype)
    back = decode(encode({"rng": value}))["rng"]
    assert (back.dtype, back.shape) == (value.dtype, value.shape)
    assert torch.equal(back.reshape(-1).view(torch.uint8), value.reshape(-1).view(torch.uint8))
    back.zero_()


def test_tensors_that_are_not_contiguous_and_arrays_come_back() -> None:
    tensor, array = torch.arange(6).reshape(2, 3).T, np.arange(6.0).reshape(2, 3).T
    back = decode(encode([tensor, array]))
    assert torch.equal(back[0], tensor)
    assert np.array_equal(back[1], array)


def test_the_state_of_random_generators_comes_back() -> None:
    state = np.random.default_rng(3).bit_generator.state
    assert decode(encode(state)) == state
    old = np.random.RandomState(3).get_state()
    assert str(decode(encode(old))) == str(old)


class Custom:
    pass


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"loader": [1, Custom()]}, r"loader\[1\] is a .*Custom"),
        ({"f": len}, "f is a builtins.builtin_function_or_method"),
        (np.array([Custom()]), "array of object"),
    ],
)
def test_what_cannot_be_saved_is_named_by_where_it_stands(value: Any, named: str) -> None:
    with pytest.raises(CodecError, match=named):
        encode(value)


def test_a_value_that_contains_itself_is_rejected() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(CodecError, match="contains itself"):
        encode(value)


def coded(header: object, buffers: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + buffers


@pytest.mark.parametrize(
    "content",
    [
        b"", b"short", pickle.dumps([1]), (1 << 60).to_bytes(8, "little") + b"{}",
        coded({"$": "exec"}), coded({"$": []}),
        coded({"$": "tensor", "dtype": "float32", "shape": [2], "at": 0, "bytes": 4}, bytes(4)),
        coded({"$": "tensor", "dtype": "load", "shape": [], "at": 0, "bytes": 4}, bytes(4)),
        coded({"$": "tensor", "dtype": "float32", "shape": [-1, -1], "at": 0, "bytes": 4}, bytes(4)),
        coded({"$": "bytes", "at": 0, "bytes": 5}, bytes(4)), coded({"$": "bytes", "at": -1, "bytes": 1}, bytes(4)),
        coded({"$": "array", "dtype": "O", "shape": [1], "at": 0, "bytes": 8}, bytes(8)),
        coded({"$": "dict", "value": [[[], 1]]}), coded({"$": "set", "value": 3}),
        len(b"[" * 100_000).to_bytes(8, "little") + b"[" * 100_000,
    ],
)  # fmt: skip
def test_other_bytes_are_rejected(content: bytes) -> None:
    with pytest.raises(CodecError):
        decode(content)


@given(st.binary(max_size=200), st.integers(0, 400), st.integers(0, 255))
def test_bytes_changed_anywhere_are_decoded_or_rejected(extra: bytes, at: int, byte: int) -> None:
    content = bytearray(encode({"a": [1, (2.5, "x")], "t": torch.ones(3), "b": extra}))
    content[at % len(content)] = byte
    with contextlib.suppress(CodecError):
        decode(content)
