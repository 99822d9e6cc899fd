"""What may be set about a policy by name: declared where it is an argument, read from ``name:key=value,key=value``.

An argument of a policy's ``__init__`` that is annotated with a :class:`Parameter` can be set by whoever names the
policy, on the command line, in a server's configuration or in a sweep. Its type and its default are those of the
argument; the annotation adds what it means and which values make sense.

>>> class Lazy:
...     def __init__(self, nap_s: Annotated[float, Parameter("how long it sleeps", least=1.0)] = 60.0) -> None: ...
>>> [str(each) for each in parameters_of(Lazy)]
['nap_s=60 (a duration, 1 or more): how long it sleeps']
>>> settings_of("lazy", Lazy, {"nap_s": "5m"})
{'nap_s': 300.0}
"""

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from penstock.core import InputError, UnknownNameError, parse_duration

SettingValue = float | int | bool | str

_SWITCH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


@dataclass(frozen=True, slots=True)
class Parameter:
    """Marks an argument as settable: what it means, and the range of a number."""

    meaning: str
    least: float = -math.inf
    most: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredParameter:
    """An argument together with its mark. ``choices`` are the values of a ``Literal``."""

    name: str
    type: type
    default: SettingValue
    meaning: str
    least: float = -math.inf
    most: float = math.inf
    choices: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}={show_value(self.default)} ({self.allowed}): {self.meaning}"

    @property
    def is_duration(self) -> bool:
        return self.type is float and self.name.endswith("_s")

    @property
    def allowed(self) -> str:
        if self.choices:
            return " or ".join(self.choices)
        if self.type is bool:
            return "true or false"
        noun = "a duration" if self.is_duration else "a whole number" if self.type is int else "a number"
        return noun + _range(self.least, self.most)

    def read(self, text: str, policy: str) -> SettingValue:
        """The value that ``text`` says, or an error that tells what is allowed."""
        try:
            value = self._value(text.strip())
        except (ValueError, KeyError, InputError):
            value = None
        if value is None or not self._fits(value):
            hint = f"The default is {show_value(self.default)}: {self.meaning}"
            raise InputError(f"{self.name}={text} of the policy {policy!r}", self.allowed, hint)
        return value

    def _value(self, text: str) -> SettingValue:
        if self.choices:
            return {choice: choice for choice in self.choices}[text]
        if self.type is bool:
            return _SWITCH[text.lower()]
        if self.type is int:
            return int(text)
        return parse_duration(text) if self.is_duration else float(text)

    def _fits(self, value: SettingValue) -> bool:
        return isinstance(value, str) or self.least <= value <= self.most

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"name": self.name, "default": self.default, "allowed": self.allowed, "meaning": self.meaning}


def parameters_of(policy: type) -> tuple[DeclaredParameter, ...]:
    """Everything that is declared settable about a policy, in the order of its arguments."""
    hints = get_type_hints(inspect.getattr_static(policy, "__init__"), include_extras=True)
    arguments = inspect.signature(policy).parameters.values()
    return tuple(
        _declared(argument, hints[argument.name], mark)
        for argument in arguments
        if argument.name in hints and (mark := _mark(hints[argument.name])) is not None
    )


def settings_of(name: str, policy: type, given: Mapping[str, str]) -> dict[str, SettingValue]:
    """The arguments that ``key=value`` texts stand for; only what the policy declares can be set."""
    known = {parameter.name: parameter for parameter in parameters_of(policy)}
    for key in given:
        if key not in known:
            hint = "`penstock policies` lists what can be set"
            raise UnknownNameError.of(f"parameter of the policy {name!r}:", key, known or ["(it has none)"], hint)
    return {key: known[key].read(text, name) for key, text in given.items()}


def show_value(value: SettingValue) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _mark(hint: Any) -> Parameter | None:
    if get_origin(hint) is not Annotated:
        return None
    return next((extra for extra in get_args(hint)[1:] if isinstance(extra, Parameter)), None)


def _declared(argument: inspect.Parameter, hint: Any, mark: Parameter) -> DeclaredParameter:
    plain = get_args(hint)[0]
    choices = get_args(plain) if get_origin(plain) is Literal else ()
    if not choices and plain not in (float, int, bool):
        raise TypeError(f"the parameter {argument.name!r} is a {plain}; it may be float, int, bool or a Literal")
    return DeclaredParameter(
        name=argument.name, type=str if choices else plain, default=argument.default, meaning=mark.meaning,
        least=mark.least, most=mark.most, choices=choices,
    )  # fmt: skip


def _range(least: float, most: float) -> str:
    if math.isfinite(least) and math.isfinite(most):
        return f", {least:g} to {most:g}"
    if math.isfinite(least):
        return f", {least:g} or more"
    return f", at most {most:g}" if math.isfinite(most) else ""
