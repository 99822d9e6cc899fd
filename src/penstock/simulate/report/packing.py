"""Arrays small enough to travel inside a page: columns of numbers, deflated, in base64.

Integers are differences written in as few bytes as they need, so that a sorted column costs about a byte a row; the
browser undoes it with the ``DecompressionStream`` every current one has.
"""

import base64
import zlib
from typing import Any

import numpy as np

from penstock.policies import Floats, Ints


def pack_floats(values: Floats) -> dict[str, Any]:
    """Single precision: seven digits are more than a screen shows."""
    return {"as": "f4", "of": len(values), "b": _squeeze(np.asarray(values, dtype="<f4").tobytes())}


def pack_bytes(values: Ints) -> dict[str, Any]:
    return {"as": "u1", "of": len(values), "b": _squeeze(np.asarray(values, dtype=np.uint8).tobytes())}


def pack_ints(values: Ints) -> dict[str, Any]:
    """Differences from one row to the next, zigzag, seven bits to a byte."""
    column = np.asarray(values, dtype=np.int64)
    steps = column - np.concatenate([[0], column[:-1]]).astype(np.int64)
    return {"as": "d", "of": len(values), "b": _squeeze(_varints((steps << 1) ^ (steps >> 63)))}


def pack_text(lines: list[str]) -> dict[str, Any]:
    return {"as": "t", "of": len(lines), "b": _squeeze("\n".join(line.replace("\n", " ") for line in lines).encode())}


def _varints(values: Ints) -> bytes:
    """Low seven bits first, the eighth says that more follows; all rows at once, byte by byte."""
    lengths = np.ones(len(values), dtype=np.int64)
    for bits in range(7, 63, 7):
        lengths += (values >> bits) > 0
    ends = np.cumsum(lengths)
    out = np.zeros(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    starts = ends - lengths
    for place in range(int(lengths.max(initial=0))):
        here = lengths > place
        more = np.where(lengths[here] > place + 1, 0x80, 0)
        out[starts[here] + place] = ((values[here] >> (7 * place)) & 0x7F) | more
    return out.tobytes()


def _squeeze(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 9)).decode("ascii")
