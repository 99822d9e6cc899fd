"""``nodes`` in a job file: where the job may run, and where it would rather.

A list alone is a condition: who writes down the names of machines means these, as after Slurm's ``--nodelist`` or a
``nodeSelector``. A wish has to be called one.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from penstock.core import InputError, JobError, NodeChoice
from penstock.spec.fields import (
    JobFilePart,
    Refused,
    as_list,
    described,
    list_of,
    read_text,
    read_words,
    reading,
    text_like,
)

_TRY = "Try [gpu-17, gpu-18]; leave it out for any node"


def _read_names(value: object) -> tuple[str, ...]:
    """Names of nodes, each once; which ones there are is known to the server alone."""
    words = read_words(value.split(",") if isinstance(value, str) else value)
    names = tuple(dict.fromkeys(read_text(word).strip() for word in words))
    if not names:
        raise InputError("an empty list of nodes", "the name of one node or more", _TRY)
    return names


_Names = Annotated[tuple[str, ...], reading(_read_names), PlainSerializer(as_list), described(list_of(), text_like())]


class NodesPart(JobFilePart):
    """On which nodes the job may run, and on which it would rather."""

    only: _Names = Field(default=(), description="It runs on these nodes and on no others.")
    avoid: _Names = Field(default=(), description="It never runs on these.")
    prefer: _Names = Field(default=(), description="It starts on these if they have room, elsewhere if not.")

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if not self.choice.names:
            raise Refused(InputError("nodes without any", "only, avoid or prefer", _TRY))
        return self

    @property
    def choice(self) -> NodeChoice:
        """What it means to the scheduler; names that contradict each other are refused."""
        try:
            return NodeChoice(only=self.only, avoid=self.avoid, prefer=self.prefer)
        except JobError as problem:
            raise Refused(problem) from None


def nodes_mapping(value: object) -> object:
    """A list, or a line of names with commas, in full."""
    return value if isinstance(value, Mapping | NodesPart) else {"only": value}


def _shortest(part: NodesPart) -> list[str] | dict[str, list[str]]:
    said = {name: list(names) for name in ("only", "avoid", "prefer") if (names := getattr(part, name))}
    return said["only"] if list(said) == ["only"] else said


def _full_form() -> dict[str, Any]:
    schema = NodesPart.model_json_schema()
    schema.pop("description", None)
    return schema


Nodes = Annotated[
    NodesPart,
    BeforeValidator(nodes_mapping),
    PlainSerializer(_shortest),
    described(list_of(), text_like("gpu-17,gpu-18"), _full_form()),
]
