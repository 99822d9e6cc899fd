"""What a signature is: a pattern of one line, and what it means when a log has it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from penstock.core import Remedy
from penstock.diagnose.signatures.literals import bounded


class Level(StrEnum):
    """How much a line says about the cause, the most telling first."""

    ROOT = "root"
    """It names the cause."""
    PROBABLE = "probable"
    """It names a cause that others could have brought about: a peer that is gone, a signal that anybody may send."""
    SYMPTOM = "symptom"
    """It is what others notice: look for an earlier line, on any rank."""
    WARNING = "warning"
    """It is not fatal by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """What signatures of one kind have in common: whose fault it usually is, and what helps."""

    name: str
    group: str
    cause: str
    fix: str
    action: Remedy


@dataclass(frozen=True, kw_only=True)
class Signature:
    """One wording of one failure.

    ``regex`` is searched in a single line, without regard to case. A line is looked at only if one of ``anchors``,
    literal text, is in it. Where ``near`` is given, the surroundings (some lines before and after) have to have it;
    where ``unless`` is given, they must not. Named groups ``rank``, ``node`` and ``device`` say who is meant. One that
    ``covers`` explains all words it finds: what signatures of other categories find within them does not count, such
    as the causes that a message offers for the reader to choose from.
    """

    id: str
    category: str
    level: Level
    regex: str
    anchors: tuple[str, ...]
    example: str
    source: str = ""
    near: str = ""
    unless: str = ""
    covers: bool = False
    cause: str = ""
    fix: str = ""
    action: Remedy

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(bounded(self.regex), re.IGNORECASE)

    @cached_property
    def _near(self) -> re.Pattern[str]:
        return re.compile(bounded(self.near), re.IGNORECASE)

    @cached_property
    def _unless(self) -> re.Pattern[str]:
        return re.compile(bounded(self.unless), re.IGNORECASE)

    @property
    def prefix(self) -> str:
        """The family of its category: ``mem`` of ``mem.gpu_oom``."""
        return self.category.partition(".")[0]

    def search(self, line: str, surroundings: Callable[[], str]) -> re.Match[str] | None:
        """The match in a line, if line and surroundings are as they have to be; these are asked for if they matter."""
        found = self.pattern.search(line)
        if found is None or (self.near and not self._near.search(surroundings())):
            return None
        return None if self.unless and self._unless.search(surroundings()) else found
