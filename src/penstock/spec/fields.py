"""The types of keys in a job file: each reads what people write, says why it refuses and tells editors about itself."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from os import PathLike, fspath
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, WithJsonSchema

from penstock.core import (
    SECRET_NAME,
    InputError,
    LossPolicy,
    PenstockError,
    PreflightLevel,
    Strictness,
    UnknownNameError,
    Unlikely,
    is_storable,
    percent_text,
)
from penstock.spec.commands import check_command
from penstock.spec.quantities import (
    duration_text,
    read_count,
    read_deadline,
    read_duration,
    read_duration_or_zero,
    read_percent,
    read_whole,
    shown,
)
from penstock.spec.stop_clauses import DIRECTIONS, WorkDemand, read_work

Value = TypeVar("Value")
_OFF = "off"

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_KIND = re.compile(r"[A-Za-z0-9][A-Za-z0-9./_-]{0,127}")
IN_FILE = "file:"
"""In front of the name of a secret that workers find in a file."""
_SECRET = re.compile(rf"(file:)?{SECRET_NAME}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OURS = frozenset(
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NNODES", "MASTER_ADDR", "MASTER_PORT"}
    | {"TORCHELASTIC_RESTART_COUNT", "CUDA_VISIBLE_DEVICES"}
)
MOST_AWAITED = 100
"""Jobs or arrays that one may name to wait for."""
_PRIORITIES = range(101)
_VALUES_EXAMPLE = "Try {8h: 50%, 12h: 20%}"


class Refused(PenstockError, ValueError):  # noqa: N818
    """An :class:`InputError` on its way through pydantic, which only carries value errors. ``at`` names a key."""

    def __init__(self, problem: InputError, *at: str) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.at = at


class JobFilePart(BaseModel):
    """A mapping in the job file: unknown keys are refused, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def reading(read: Callable[[object], Value]) -> BeforeValidator:
    """Let ``read`` decide about a value; its refusal reaches the person unchanged."""

    def validate(value: object) -> Value:
        try:
            return read(value)
        except InputError as problem:
            raise Refused(problem) from None

    return BeforeValidator(validate)


def read_text(value: object) -> str:
    """Text that is not empty; a path will do."""
    text = fspath(value) if isinstance(value, str | PathLike) else None
    if not isinstance(text, str) or not text.strip() or not is_storable(text):
        raise InputError(f"{shown(value)} is not usable text", "a string that is not empty", "Put it in quotes")
    return text


def read_words(value: object) -> tuple[str, ...]:
    """A list of words; numbers among them become text."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise InputError(f"{shown(value)} is not a list", "a list of words", 'Try ["--lr", "0.1"]')
    return tuple(_word(item) for item in value)


def _read_command(value: object) -> str | tuple[str, ...]:
    if not isinstance(value, str | list | tuple):
        raise InputError(f"{shown(value)} is not a command", "a command line or a list of words", "Try python train.py")
    command = read_text(value) if isinstance(value, str) else read_words(value)
    check_command(command)
    return command


def _read_name(value: object) -> str:
    if isinstance(value, str) and NAME.fullmatch(value):
        return value
    raise InputError(
        f"{shown(value)} is not a name",
        "1 to 63 letters, digits, dots, dashes and underscores, a letter or digit at both ends",
        'Try "resnet50-night"',
    )


def _read_kinds(value: object) -> tuple[str, ...]:
    kinds = read_words(value.split(",") if isinstance(value, str) else value)
    stripped = tuple(dict.fromkeys(kind.strip() for kind in kinds))
    for kind in stripped:
        if not _KIND.fullmatch(kind):
            raise InputError(
                f"{shown(kind)} is not a kind of device", "a resource name", 'Try "nvidia.com/gpu" or "cpu"'
            )
    return stripped


def _read_after(value: object) -> tuple[str, ...]:
    words = read_words(value.split(",") if isinstance(value, str) else value)
    names = tuple(dict.fromkeys(word.strip() for word in words))
    for name in names:
        if not NAME.fullmatch(name):
            raise InputError(f"{shown(name)} is not a job", "ids or names of jobs or job arrays", 'Try "prepare-data"')
    if len(names) > MOST_AWAITED:
        raise InputError(f"{len(names)} jobs to wait for", f"at most {MOST_AWAITED}", "Name a job array instead")
    return names


def _read_env(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise InputError(f"{shown(value)} is not a set of variables", "NAME: value pairs", 'Try {"OMP_NUM_THREADS": 4}')
    for name in value:
        _check_variable(name)
    return {name: _word(content, f"variable {name}: ") for name, content in value.items()}


def _check_variable(name: object) -> None:
    if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
        raise InputError(f"{shown(name)} is not the name of a variable", "letters, digits and underscores")
    if name in _OURS or name.startswith("PENSTOCK_"):
        raise InputError(f"variable {name!r} is set by Penstock itself", "any other name", "Leave it out")


def _read_secrets(value: object) -> dict[str, str]:
    """Variables and the secrets in them; a list names secrets after their variables."""
    if isinstance(value, list | tuple):
        for name in value:
            _check_variable(name)
        value = {name: name for name in value}
    if not isinstance(value, Mapping):
        raise InputError("that is not a set of secrets", "names of secrets, or VARIABLE: name", "Try [HF_TOKEN]")
    for variable, name in value.items():
        _check_variable(variable)
        if not isinstance(name, str) or not _SECRET.fullmatch(name):
            raise InputError(
                f"what stands for {variable} is not the name of a secret",
                "letters, digits, '_', '.' and '-', with file: in front for a file",
                "Store it with penstock secrets set NAME, and give its name here, not its value",
            )  # fmt: skip
    return dict(value)


def _read_requirements(value: object) -> str | tuple[str, ...]:
    if isinstance(value, str | PathLike):
        return read_text(value)
    requirements = read_words(value)
    for line in requirements:
        if re.match(r"-(r|c)\b|--(requirement|constraint)\b", line):
            raise InputError(f"{shown(line)} in a list of requirements", "packages", "Give the file itself instead")
    return requirements


def _read_priority(value: object) -> int:
    try:
        priority = read_whole(value)
    except InputError:
        priority = -1
    if priority not in _PRIORITIES:
        raise InputError(f"{shown(value)} is not a priority", "0 (least) to 100 (most urgent)", "Try 50")
    return priority


def _read_strictness(value: object) -> Strictness:
    try:
        return Strictness(str(value).lower())
    except ValueError:
        raise UnknownNameError.of("strictness", str(value), [str(one) for one in Strictness]) from None


def _read_values(value: object) -> dict[str, float]:
    """Later deadlines and the share of its value that a job still has by then, the earliest first."""
    if not isinstance(value, Mapping):
        raise InputError(f"{shown(value)} is not a set of later values", "DEADLINE: percentage pairs", _VALUES_EXAMPLE)
    return {read_deadline(deadline): read_percent(share) for deadline, share in value.items()}


_NEVER, _LEARNED = "never", "learned"


class Profiling(StrEnum):
    """When the speed of a job that was never measured is measured."""

    AUTO = "auto"
    """In the first seconds of its run; a deadline is answered then."""
    FIRST = "first"
    """In short runs on a few numbers of devices, before it is submitted."""
    NEVER = "never"
    """Not at all on purpose: it is answered at once, on a guess."""


def _read_profiling(value: object) -> Profiling:
    try:
        return Profiling(str(value).lower())
    except ValueError:
        raise UnknownNameError.of("way of profiling", str(value), [str(mode) for mode in Profiling]) from None


def _read_flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise InputError(f"{shown(value)} is neither true nor false", "true or false")


def _read_loss_policy(value: object) -> LossPolicy:
    """YAML makes ``off`` a flag."""
    word = "off" if value is False else str(value).lower()
    try:
        return LossPolicy(word)
    except ValueError:
        raise UnknownNameError.of("way to watch a loss", str(value), [str(one) for one in LossPolicy]) from None


def _read_preflight(value: object) -> PreflightLevel | None:
    """Nothing for off, which YAML makes a flag."""
    if value is False or str(value).lower() == _OFF:
        return None
    try:
        return PreflightLevel(str(value).lower())
    except ValueError:
        raise UnknownNameError.of("preflight", str(value), [*map(str, PreflightLevel), _OFF]) from None


def _read_hang(value: object) -> float | None:
    """Seconds, endless for never; nothing where the run itself shows what is long."""
    if value is None or value == _LEARNED:
        return None
    return math.inf if value == _NEVER else read_duration(value)


def _hang_text(seconds: float | None) -> str:
    if seconds is None:
        return _LEARNED
    return duration_text(seconds) if math.isfinite(seconds) else _NEVER


def _word(value: object, what: str = "") -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float | PathLike):
        raise InputError(f"{what}{shown(value)} is not a word", "text or a number", "Put it in quotes")
    word = str(value)
    if not is_storable(word):
        raise InputError(f"{what}{shown(word)} cannot be given to a process", "Unicode text without zero bytes")
    return word


def described(*forms: Mapping[str, Any]) -> WithJsonSchema:
    """What editors are told of a key: any of these forms."""
    return WithJsonSchema(dict(forms[0]) if len(forms) == 1 else {"anyOf": [dict(form) for form in forms]})


def text_like(*examples: str, **rest: Any) -> dict[str, Any]:
    """The schema of text, with examples for completion."""
    return {"type": "string", **({"examples": list(examples)} if examples else {}), **rest}


def _integer(minimum: int, **rest: Any) -> dict[str, Any]:
    return {"type": "integer", "minimum": minimum, **rest}


def list_of(items: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The schema of a list; of words unless ``items`` says otherwise."""
    return {"type": "array", "items": dict(items or {"type": ["string", "number"]})}


def as_list(values: Iterable[str]) -> list[str]:
    return list(values)


_COUNT_FORMS = (_integer(1), text_like("10_000", "10k"))
_DURATION_FORMS = (text_like("10m", "1h30m"), {"type": "number", "minimum": 0})
_AS_DURATION = PlainSerializer(duration_text, return_type=str)

Count = Annotated[int, reading(read_count), described(*_COUNT_FORMS)]
Whole = Annotated[int, reading(read_whole), described(_integer(0), text_like("3"))]
Duration = Annotated[float, reading(read_duration), _AS_DURATION, described(*_DURATION_FORMS)]
Delay = Annotated[float, reading(read_duration_or_zero), _AS_DURATION, described(*_DURATION_FORMS)]
HangAfter = Annotated[
    float | None,
    reading(_read_hang),
    PlainSerializer(_hang_text, return_type=str),
    described(text_like("30m", _NEVER, _LEARNED), {"type": "number", "minimum": 0}, {"type": "null"}),
]
_UNLIKELY = [str(behaviour) for behaviour in Unlikely]
_AMOUNT_FORM = {"anyOf": [text_like("50 epochs"), _integer(1)]}
_UNTIL_FORM = {
    "anyOf": [
        text_like("val_acc >= 0.92", "val_loss stops improving for 5 epochs"),
        {
            "type": "object",
            "properties": {
                "metric": {"type": "string"},
                "at_least": {"type": "number"},
                "at_most": {"type": "number"},
                "patience": _AMOUNT_FORM,
                "least_gain": {"type": "number"},
                "direction": {"enum": list(DIRECTIONS)},
            },
            "required": ["metric"],
            "additionalProperties": False,
        },
    ]
}
WorkAmount = Annotated[
    WorkDemand,
    reading(read_work),
    PlainSerializer(str, return_type=str),
    described(
        text_like("30 epochs", "until val_acc >= 0.92, at most 50 epochs"),
        _integer(1),
        {
            "type": "object",
            "properties": {"until": _UNTIL_FORM, "at_most": _AMOUNT_FORM, "if_unlikely": {"enum": _UNLIKELY}},
            "required": ["until", "at_most"],
            "additionalProperties": False,
        },
    ),
]
DeadlineText = Annotated[
    str, reading(read_deadline), described(text_like("6h", "2026-12-01T18:00"), {"type": "number", "minimum": 0})
]
StrictnessName = Annotated[Strictness, reading(_read_strictness), described({"enum": [str(s) for s in Strictness]})]
LaterValues = Annotated[
    dict[str, float],
    reading(_read_values),
    PlainSerializer(lambda values: {at: percent_text(share) for at, share in values.items()}, return_type=dict),
    described({"type": "object", "additionalProperties": text_like("50%"), "examples": [{"8h": "50%", "12h": "20%"}]}),
]
LossPolicyName = Annotated[LossPolicy, reading(_read_loss_policy), described({"enum": [*map(str, LossPolicy), False]})]
PREFLIGHT_FORMS = {"enum": [*map(str, PreflightLevel), _OFF, False]}
PreflightLevelName = Annotated[
    PreflightLevel | None,
    reading(_read_preflight),
    PlainSerializer(lambda level: _OFF if level is None else str(level), return_type=str),
    described(PREFLIGHT_FORMS),
]
ProfileMode = Annotated[Profiling, reading(_read_profiling), described({"enum": [str(mode) for mode in Profiling]})]
Flag = Annotated[bool, reading(_read_flag), described({"type": "boolean"})]
Text = Annotated[str, reading(read_text), described(text_like())]
Name = Annotated[str, reading(_read_name), described(text_like("resnet50-night", pattern=f"^{NAME.pattern}$"))]
Words = Annotated[tuple[str, ...], reading(read_words), PlainSerializer(as_list), described(list_of())]
Command = Annotated[str | tuple[str, ...], reading(_read_command), described(text_like("python train.py"), list_of())]
Kinds = Annotated[tuple[str, ...], reading(_read_kinds), PlainSerializer(as_list), described(list_of(), text_like())]
After = Annotated[tuple[str, ...], reading(_read_after), PlainSerializer(as_list), described(list_of(), text_like())]
Requirements = Annotated[
    str | tuple[str, ...], reading(_read_requirements), described(text_like("requirements.txt"), list_of())
]
Secrets = Annotated[
    dict[str, str],
    reading(_read_secrets),
    described(list_of({"type": "string"}), {"type": "object", "additionalProperties": {"type": "string"}}),
]
Variables = Annotated[
    dict[str, str],
    reading(_read_env),
    described({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}),
]
Priority = Annotated[int, reading(_read_priority), described(_integer(0, maximum=100))]
