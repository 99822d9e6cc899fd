"""What a configuration says about an engine, as the settings of its backend."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from penstock.core import InputError, UnknownNameError

SettingsT = TypeVar("SettingsT")


def read_settings(kind: type[SettingsT], values: Mapping[str, Any], backend: str) -> SettingsT:
    """Settings of a dataclass from a table; unknown keys and values of other types are refused."""
    known = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            raise UnknownNameError.of(f"setting of the backend {backend}", key, sorted(known))
    listed = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    try:
        return kind(**listed)
    except TypeError as error:
        raise InputError(f"backend_settings of {backend}: {error}", "values of the documented types") from None
