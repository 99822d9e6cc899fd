"""Kinds of values that requests carry, each with the bounds inside of which everything behind it is safe."""

from typing import Annotated, Any

from fastapi import Body, Header, Path, Query
from pydantic import AfterValidator

from penstock.core import InputError
from penstock.wire import StorableText, storable

MOST_NUMBER = 2**63 - 1
"""What a database can count to."""

Spec = Annotated[dict[str, Any], AfterValidator(storable), Body(description="A job file as JSON.")]
Name = Annotated[StorableText, Path(description="As a list shows it.")]
EventNumber = Annotated[int, Query(ge=0, le=MOST_NUMBER)]
Before = Annotated[int | None, Query(ge=0, le=MOST_NUMBER, description="Only entries before this number.")]
Newest = Annotated[bool, Query(description="The last entries that match instead of the first; both ascend.")]
Bookkeeping = Annotated[bool, Query(description="Also the platform's own bookkeeping.")]
EventLimit = Annotated[int, Query(ge=1, le=1000)]
LastEvent = Annotated[str | None, Header(alias="Last-Event-ID", max_length=100)]
Key = Annotated[str | None, Header(max_length=200), AfterValidator(storable)]


def event_number(text: str) -> int:
    """The number of an event, as a browser says it that comes back."""
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= MOST_NUMBER):
        raise InputError(f"{text!r} is not the id of an event", "the number of an event", "Leave it out")
    return int(text)
