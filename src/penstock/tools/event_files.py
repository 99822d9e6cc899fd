"""TensorBoard's event files, as far as scalars go: read and written without TensorBoard.

A file is a row of records: the length, a checksum of the length, the bytes, a checksum of the bytes (CRC-32C, masked).
Each record is an ``Event`` of protocol buffers; a handful of their fields is all that a scalar needs.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

LARGEST_RECORD = 1 << 16
"""Bytes of a record that may hold scalars; larger ones are images or histograms."""
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_HEADER = _LENGTH.size + _CHECKSUM.size
_VERSION = b"brain.Event:2"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FLOAT_TYPE, _DOUBLE_TYPE = 1, 2
_SIGN = 1 << 63


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value of one tag."""

    tag: str
    step: int
    wall_time: float
    value: float


class EventFileError(ValueError):
    """Bytes that are no event file."""


def read_scalars(data: bytes) -> tuple[list[Scalar], int]:
    """The scalars of the complete records in ``data``, and how many bytes those take.

    More bytes than ``data`` has are told if the last record may be skipped without being read. A record that is no
    event holds no scalars; a length that cannot be right raises :class:`EventFileError`.
    """
    found: list[Scalar] = []
    position = 0
    while position + _HEADER <= len(data):
        (length,) = _LENGTH.unpack_from(data, position)
        if _CHECKSUM.unpack_from(data, position + _LENGTH.size)[0] != masked_crc(data[position : position + 8]):
            raise EventFileError(f"no record begins at byte {position}")
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
    tag = scalar.tag.encode()
    value = _message(1, tag) + bytes([2 << 3 | _FIXED32]) + struct.pack("<f", _as_float32(scalar.value))
    step = bytes([2 << 3 | _VARINT]) + _varint(scalar.step)
    return record(_time(scalar.wall_time) + step + _message(5, _message(1, value)))


def version_record(wall_time: float) -> bytes:
    """The record that a file begins with."""
    return record(_time(wall_time) + _message(3, _VERSION))


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
        fields = list(_fields(event))
        step = next((int(value) for number, kind, value in fields if (number, kind) == (2, _VARINT)), 0)
        times = [
            value for number, kind, value in fields if (number, kind) == (1, _FIXED64) and isinstance(value, bytes)
        ]
        at = struct.unpack("<d", times[0])[0] if times else 0.0
        for number, kind, summary in fields:
            if (number, kind) == (5, _BYTES) and isinstance(summary, bytes):
                yield from _values(summary, step, at)
    except (IndexError, struct.error, UnicodeDecodeError, ValueError):
        return


def _values(summary: bytes, step: int, at: float) -> Iterator[Scalar]:
    for number, kind, value in _fields(summary):
        if (number, kind) != (1, _BYTES) or not isinstance(value, bytes):
            continue
        parts = {number: part for number, _, part in _fields(value)}
        tag, simple, tensor = parts.get(1), parts.get(2), parts.get(8)
        if not isinstance(tag, bytes):
            continue
        if isinstance(simple, bytes) and len(simple) == _CHECKSUM.size:
            yield Scalar(tag.decode(), step, at, struct.unpack("<f", simple)[0])
        elif isinstance(tensor, bytes) and (number_found := _scalar_of_tensor(tensor)) is not None:
            yield Scalar(tag.decode(), step, at, number_found)


def _scalar_of_tensor(tensor: bytes) -> float | None:
    """The element of a tensor of one float or double; nothing of any other."""
    parts = {number: part for number, _, part in _fields(tensor)}
    form = {_FLOAT_TYPE: ("<f", 5), _DOUBLE_TYPE: ("<d", 6)}.get(parts.get(1))  # type: ignore[arg-type]
    if form is None:
        return None
    layout, listed = form
    content = parts.get(4) or parts.get(listed)
    if not isinstance(content, bytes) or len(content) != struct.calcsize(layout):
        return None
    return float(struct.unpack(layout, content)[0])


def _fields(message: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Number, kind and value of each field; groups, which nobody uses, end the reading."""
    position = 0
    while position < len(message):
        key, position = _read_varint(message, position)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, position = _read_varint(message, position)
            yield number, kind, value
            continue
        if kind == _BYTES:
            length, position = _read_varint(message, position)
        elif kind in (_FIXED32, _FIXED64):
            length = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError("a field of an unknown kind")
        if position + length > len(message):
            raise ValueError("a field that is longer than its message")
        yield number, kind, message[position : position + length]
        position += length


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        byte = message[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if not byte & 0x80:
            return value - (_SIGN << 1) if value & _SIGN else value, position
    raise ValueError("a number without an end")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _message(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | _BYTES]) + _varint(len(data)) + data


def _time(wall_time: float) -> bytes:
    return bytes([1 << 3 | _FIXED64]) + struct.pack("<d", wall_time)


def _as_float32(value: float) -> float:
    """A value that fits: one beyond all 32-bit floats is an infinity, as numpy has it."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value
