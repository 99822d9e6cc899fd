"""Checks of nodes before a run starts on them: what is asked for, what is remembered, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

DAY_S = 86_400.0


class PreflightLevel(StrEnum):
    """How thorough a check is."""

    QUICK = "quick"
    FULL = "full"

    def covers(self, other: "PreflightLevel") -> bool:
        """Whether who passed this has passed the other."""
        return self is PreflightLevel.FULL or other is PreflightLevel.QUICK


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightRule:
    """When a job's nodes are checked: from so many devices on, unless they did well at most so long ago."""

    level: PreflightLevel = PreflightLevel.QUICK
    again_after_s: float = DAY_S
    from_devices: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHealth:
    """The last check that a node passed."""

    at: float
    level: PreflightLevel

    def satisfies(self, rule: PreflightRule, now: float) -> bool:
        return self.level.covers(rule.level) and now - self.at < rule.again_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """What an agent is told: nodes other than those that are ``fit`` are checked before a worker starts there."""

    level: PreflightLevel
    from_devices: int = 1
    fit: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightVerdict:
    """What a check of a run's nodes has found.

    ``unfit`` are nodes that must not be used, with the reason. ``fault`` is why the run cannot start although no node
    is to blame: its environment, or the network between all of them. ``remarks`` change nothing.
    """

    fit: tuple[str, ...] = ()
    unfit: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""
    remarks: tuple[str, ...] = ()
