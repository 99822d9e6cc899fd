"""Whether an entry can be read again once it is written: asked before anything is changed by it.

The log is read at every start, so one entry in it that cannot be read would be met again and again. Whatever made it,
it is refused here. Decisions are left out: they hold nothing that came from outside, and are large.
"""

import json
from typing import Any

from penstock.control.state.entries import Decided, Entry
from penstock.core import LATEST, CodecError, InputError, decode, encode


def readable_payload(entry: Entry) -> dict[str, Any]:
    """An entry as it is written; raises :class:`~penstock.core.InputError` for one that no later start could read."""
    if isinstance(entry, Decided):
        return encode(entry)
    try:
        payload = encode(entry)
        text = json.dumps(payload, allow_nan=False)
        text.encode()
        decode(json.loads(text))
    except (CodecError, TypeError, ValueError, RecursionError) as error:
        raise _unreadable(entry, str(error)) from None
    if "\\u0000" in text or "\\ud" in text:
        _check_texts(entry, text)
    if not entry.at <= LATEST:
        raise _unreadable(entry, "it is dated after the year 9999")
    return payload


def _check_texts(entry: Entry, text: str) -> None:
    """Zero bytes and halves of surrogate pairs are valid JSON and no database takes them."""
    if "\0" in (plain := "".join(_texts(json.loads(text)))):
        raise _unreadable(entry, "it holds a zero byte")
    try:
        plain.encode()
    except UnicodeEncodeError:
        raise _unreadable(entry, "it holds half a character") from None


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, dict):
        return [text for item in value.items() for part in item for text in _texts(part)]
    return []


def _unreadable(entry: Entry, why: str) -> InputError:
    return InputError(
        f"{type(entry).__name__} cannot be written to the log: {why[:300]}",
        "numbers of the right type and size, and text without zero bytes",
    )
