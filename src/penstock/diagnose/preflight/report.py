"""What a check found: a figure beside what was expected, and what to do if they do not agree."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from penstock.core import InputError

_FORMAT = 1


class Status(StrEnum):
    """``skip``: could not be judged here, and says why; it is not a pass."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One question with its answer. ``figure`` is what was found, ``expected`` what it was held against."""

    name: str
    status: Status
    figure: str
    expected: str = ""
    next: str = ""

    @property
    def line(self) -> str:
        """A reason a person can act on."""
        wanted = f", expected {self.expected}" if self.expected else ""
        return f"{self.name}: {self.figure}{wanted}" + (f". {self.next}" if self.next else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """All checks of one node, and facts that are compared between nodes."""

    node: str
    seconds: float
    clock: float
    """When it ended, by the node's own clock."""
    facts: dict[str, str] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.failures

    @property
    def failures(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.status is Status.FAIL)

    @property
    def reason(self) -> str:
        """Why the node must not be used; empty if it may."""
        return "; ".join(check.line for check in self.failures)

    def to_data(self) -> dict[str, Any]:
        return {"format": _FORMAT, "ok": self.ok, **asdict(self)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "NodeReport":
        try:
            checks = tuple(Check(**{**each, "status": Status(each["status"])}) for each in data["checks"])
            return cls(
                node=str(data["node"]), seconds=float(data["seconds"]), clock=float(data["clock"]),
                facts={str(key): str(value) for key, value in data["facts"].items()}, checks=checks,
            )  # fmt: skip
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise InputError(
                f"not the report of a node: {type(problem).__name__}: {problem}", f"format {_FORMAT}",
                "Make one with `penstock preflight --json`",
            ) from None  # fmt: skip


MARK = "penstock-preflight: "
"""Stands before a report that is one line among others of a job's output."""


def marked(report: NodeReport) -> str:
    return MARK + json.dumps(report.to_data())


def found_in(output: str) -> NodeReport | None:
    """The last report among lines of output."""
    lines: Iterable[str] = (line for line in reversed(output.splitlines()) if MARK in line)
    for line in lines:
        try:
            return NodeReport.from_data(json.loads(line.partition(MARK)[2]))
        except (ValueError, InputError):
            continue
    return None
