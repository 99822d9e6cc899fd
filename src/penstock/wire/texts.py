"""Texts that every store can hold: databases know no NUL, and no encoding has a place for half of a character."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field

_DEEPEST = 40


def storable(value: Any, depth: int = 0) -> Any:
    """The same value, if every text in it can be stored; raises ``ValueError``."""
    if depth > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} deep")
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("it holds a NUL character")
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise ValueError("it holds half a surrogate pair, which is no text")
    elif isinstance(value, dict):
        for key, inside in value.items():
            storable(key, depth + 1)
            storable(inside, depth + 1)
    elif isinstance(value, list):
        for inside in value:
            storable(inside, depth + 1)
    return value


StorableText = Annotated[str, Field(max_length=1000), AfterValidator(storable)]
