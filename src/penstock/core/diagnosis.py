"""Why a run failed, as a value: one cause, one remedy, and the lines that say so.

It is made by :mod:`penstock.diagnose`, written into the log with the failure it explains, and shown wherever somebody
asks about the job. A diagnosis that is not sure says so by its category, ``unknown``, rather than by a guess.
"""

from dataclasses import dataclass
from enum import StrEnum

UNKNOWN = "unknown"
"""The category of a failure that no signature names."""
MOST_EVIDENCE = 5


class Remedy(StrEnum):
    """What should be done about a failure, in the words a controller acts on."""

    FIX_CODE = "fix_code"
    FIX_CONFIG = "fix_config"
    FIX_ENV = "fix_env"
    CONVERT_CHECKPOINT = "convert_checkpoint"
    CORDON_AND_RESTART = "cordon_and_restart"
    LOCATE_AND_CORDON = "locate_and_cordon"
    CHECK_PEER = "check_peer"
    FIND_FIRST_ERROR = "find_first_error"
    FIND_LAGGING_RANK = "find_lagging_rank"
    OBSERVE = "observe"
    REQUEUE = "requeue"
    RETRY = "retry"
    RETRY_NEW_PORT = "retry_new_port"
    RETRY_THEN_CHECK = "retry_then_check"
    RETRY_THEN_FIX = "retry_then_fix"
    ROLLBACK_AND_TUNE = "rollback_and_tune"
    ROLLBACK_CHECKPOINT = "rollback_checkpoint"
    ROLLBACK_SKIP_DATA = "rollback_skip_data"

    @property
    def needs_a_person(self) -> bool:
        """Whether the same again would end the same way until somebody has changed something."""
        return self in _FOR_A_PERSON


_FOR_A_PERSON = frozenset((Remedy.FIX_CODE, Remedy.FIX_CONFIG, Remedy.FIX_ENV, Remedy.CONVERT_CHECKPOINT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A line that speaks for a diagnosis, and where it was read; ``line`` counts from 1."""

    text: str
    source: str = ""
    line: int | None = None
    rank: int | None = None

    def __str__(self) -> str:
        where = self.source if self.line is None else f"{self.source}:{self.line}"
        who = "" if self.rank is None else f"rank {self.rank}"
        return f"{', '.join(filter(None, (where, who)))}: {self.text}" if where or who else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """Where it began, as far as anything says."""

    rank: int | None = None
    node: str = ""
    device: str = ""

    def __str__(self) -> str:
        parts = ("" if self.rank is None else f"rank {self.rank}", self.node and f"node {self.node}", self.device)
        return ", ".join(filter(None, parts))

    def __bool__(self) -> bool:
        return bool(str(self))


NOBODY = Culprit()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One cause and one remedy.

    ``category`` is a signature's, such as ``mem.gpu_oom``, or :data:`UNKNOWN`. ``cause`` and ``fix`` are sentences,
    ``similar`` addresses of public reports of the same. ``confidence`` is between 0 and 1; a category that rests on a
    symptom alone is below one that a log names.
    """

    category: str = UNKNOWN
    confidence: float = 0.0
    cause: str = ""
    fix: str = ""
    action: Remedy = Remedy.OBSERVE
    evidence: tuple[Evidence, ...] = ()
    culprit: Culprit = NOBODY
    similar: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        return self.category != UNKNOWN

    @property
    def headline(self) -> str:
        """The category, if there is one, the cause and where, in a line."""
        where = f" ({self.culprit})" if self.culprit else ""
        return ": ".join(filter(None, (self.category if self.known else "", self.cause))) + where

    @property
    def would_recur(self) -> bool:
        """Whether a retry is a waste: somebody has to change something first, and that is nearly certain."""
        return self.action.needs_a_person and self.confidence >= SURE


SURE = 0.8
"""From this confidence on a diagnosis decides; below it only advises."""
