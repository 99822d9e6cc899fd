"""Whom a job wants told about its promises and its end."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from penstock.spec.fields import JobFilePart, Words


class NotifyPart(JobFilePart):
    """Addresses, and what they are told; which addresses a job may name is for the server to say."""

    to: Words = Field(description="Addresses: https://…, slack:https://…, mailto:ann@example.org.")
    on: Words | None = Field(
        default=None,
        description="promised, at_risk, broken, finished, failed, declined, regressed, cancelled; all but the last.",
    )


def _expand(value: object) -> object:
    if isinstance(value, str):
        return {"to": [value]}
    return {"to": value} if isinstance(value, list | tuple) else value


Notify = Annotated[NotifyPart, BeforeValidator(_expand)]
