"""Protocol buffers on the wire: the few kinds of fields that messages are made of, read and written without classes."""

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Kinds of fields."""
_SIZES = {FIXED32: 4, FIXED64: 8}
_SIGN = 1 << 63


def varint_field(number: int, value: int) -> bytes:
    """A whole number from 0 on."""
    return _key(number, VARINT) + _varint(value)


def bytes_field(number: int, data: bytes | str) -> bytes:
    """A text, bytes, or a message within the message."""
    raw = data.encode() if isinstance(data, str) else data
    return _key(number, BYTES) + _varint(len(raw)) + raw


def fixed_field(number: int, data: bytes) -> bytes:
    """A float or a double, packed already."""
    return _key(number, FIXED32 if len(data) == _SIZES[FIXED32] else FIXED64) + data


def fields(message: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Number, kind and value of each field; :class:`ValueError` or :class:`IndexError` where there is no message."""
    position = 0
    while position < len(message):
        key, position = _read_varint(message, position)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, position = _read_varint(message, position)
            yield number, kind, value
            continue
        if kind == BYTES:
            length, position = _read_varint(message, position)
        elif kind in _SIZES:
            length = _SIZES[kind]
        else:
            raise ValueError("a field of an unknown kind")
        if length < 0 or position + length > len(message):
            raise ValueError("a field that is longer than its message")
        yield number, kind, message[position : position + length]
        position += length


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


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
