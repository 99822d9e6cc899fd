"""TensorBoard's event files, as far as scalars go: read and written without TensorBoard.

A file is a row of records: the length, a checksum of the length, the bytes, a checksum of the bytes (CRC-32C, masked).
Each record is an ``Event`` of protocol buffers; a handful of their fields is all that a scalar needs.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.tools.protobuf_wire import BYTES, FIXED64, VARINT, bytes_field, fields, fixed_field, varint_field

LARGEST_RECORD = 1 << 16
"""Bytes of a record that may hold scalars; larger ones are images or histograms."""
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_HEADER = _LENGTH.size + _CHECKSUM.size
_VERSION = b"brain.Event:2"
_FLOAT_TYPE, _DOUBLE_TYPE = 1, 2


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value of one tag."""

    tag: str
    step: int
    wall_time: float
    value: float


def read_scalars(data: bytes) -> tuple[list[Scalar], int]:
    """The scalars of the complete records in ``data``, and how many bytes those take.

    More bytes than ``data`` has are told if the last record may be skipped without being read. A record that is no
    event holds no scalars; a length that cannot be right raises :class:`ValueError`.
    """
    found: list[Scalar] = []
    position = 0
    while position + _HEADER <= len(data):
        (length,) = _LENGTH.unpack_from(data, position)
        if _CHECKSUM.unpack_from(data, position + _LENGTH.size)[0] != masked_crc(data[position : position + 8]):
            raise ValueError(f"no record begins at byte {position}")
        end = position + _HEADER + length + _CHECKSUM.size
        if length > LARGEST_RECORD:
            position = end
        elif end > len(data):
            break
        else:
            found += _scalars(data[position + _HEADER : end - _CHECKSUM.size])
            position = end
    return found, position


def scalar_record(scalar: Scalar) -> bytes:
    """A record with one scalar."""
    value = bytes_field(1, scalar.tag) + fixed_field(2, struct.pack("<f", _as_float32(scalar.value)))
    return record(_time(scalar.wall_time) + varint_field(2, scalar.step) + bytes_field(5, bytes_field(1, value)))


def version_record(wall_time: float) -> bytes:
    """The record that a file begins with."""
    return record(_time(wall_time) + bytes_field(3, _VERSION))


def record(data: bytes) -> bytes:
    """Bytes as a record."""
    length = _LENGTH.pack(len(data))
    return b"".join([length, _CHECKSUM.pack(masked_crc(length)), data, _CHECKSUM.pack(masked_crc(data))])


def masked_crc(data: bytes) -> int:
    """CRC-32C, turned and shifted, so that a checksum of data with checksums in it stays one."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(data: bytes, crc: int = 0) -> int:
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _table() -> tuple[int, ...]:
    entries = []
    for entry in range(256):
        for _ in range(8):
            entry = entry >> 1 ^ (0x82F63B78 if entry & 1 else 0)
        entries.append(entry)
    return tuple(entries)


_TABLE = _table()


def _scalars(event: bytes) -> Iterator[Scalar]:
    try:
        parts = list(fields(event))
        step = next((int(value) for number, kind, value in parts if (number, kind) == (2, VARINT)), 0)
        times = [value for number, kind, value in parts if (number, kind) == (1, FIXED64) and isinstance(value, bytes)]
        at = struct.unpack("<d", times[0])[0] if times else 0.0
        for number, kind, summary in parts:
            if (number, kind) == (5, BYTES) and isinstance(summary, bytes):
                yield from _values(summary, step, at)
    except (IndexError, struct.error, UnicodeDecodeError, ValueError):
        return


def _values(summary: bytes, step: int, at: float) -> Iterator[Scalar]:
    for number, kind, value in fields(summary):
        if (number, kind) != (1, BYTES) or not isinstance(value, bytes):
            continue
        parts = {number: part for number, _, part in fields(value)}
        tag, simple, tensor = parts.get(1), parts.get(2), parts.get(8)
        if not isinstance(tag, bytes):
            continue
        if isinstance(simple, bytes) and len(simple) == _CHECKSUM.size:
            yield Scalar(tag.decode(), step, at, struct.unpack("<f", simple)[0])
        elif isinstance(tensor, bytes) and (number_found := _scalar_of_tensor(tensor)) is not None:
            yield Scalar(tag.decode(), step, at, number_found)


def _scalar_of_tensor(tensor: bytes) -> float | None:
    """The element of a tensor of one float or double; nothing of any other."""
    parts = {number: part for number, _, part in fields(tensor)}
    form = {_FLOAT_TYPE: ("<f", 5), _DOUBLE_TYPE: ("<d", 6)}.get(parts.get(1))  # type: ignore[arg-type]
    if form is None:
        return None
    layout, listed = form
    content = parts.get(4) or parts.get(listed)
    if not isinstance(content, bytes) or len(content) != struct.calcsize(layout):
        return None
    return float(struct.unpack(layout, content)[0])


def _time(wall_time: float) -> bytes:
    return fixed_field(1, struct.pack("<d", wall_time))


def _as_float32(value: float) -> float:
    """A value that fits: one beyond all 32-bit floats is an infinity, as numpy has it."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value
