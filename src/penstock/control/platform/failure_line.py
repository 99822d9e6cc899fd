"""Why a job failed, in one line: the script's own last words first, then what happened to its process."""

import re
from collections.abc import Mapping, Sequence

from penstock.core import FailureReason

_HAPPENED: Mapping[str, str] = {
    FailureReason.EXIT: "its script ended by itself",
    FailureReason.SIGNAL: "its process was killed",
    FailureReason.HANG: "it gave no sign of life",
    FailureReason.LOST: "its processes were gone",
    FailureReason.LAUNCH: "it could not be started",
    FailureReason.VANISHED: "its run was gone",
    FailureReason.NONSENSE: "it said what cannot be true",
    FailureReason.PREFLIGHT: "its nodes failed the check before it started",
}
_OF_SCRIPT = (FailureReason.EXIT, FailureReason.SIGNAL, FailureReason.HANG)
"""Failures after which the last line is one that the script printed."""
_TRACEBACK = "Traceback (most recent call last):"
_RANK = re.compile(r"^(\[\d+\] ?)?(\[rank\d+\]: ?)?")
"""What we put before the lines of each worker, and what torch puts before those of tracebacks."""
_ERROR = re.compile(r"^[A-Za-z_][\w.]*(:|$)")


_TELLING = re.compile(
    r"error|exception|fail|fatal|abort|kill|denied|cannot|can't|could not|unable|not (?:found|installed|a)\b|no such|"
    r"refused|invalid|missing|out of|panic|^penstock:|^[A-Za-z_][\w.]*:",
    re.IGNORECASE,
)
"""What a line has that may say why a script failed; any other is only what it printed last."""


def failure_line(reason: str, tail: Sequence[str], code: int | None = None) -> str:
    """A backend's word for a failure as a sentence; any other reason as it is."""
    happened = _HAPPENED.get(reason)
    if happened is None:
        return reason
    if code:
        happened += f" with code {code}"
    said = _last_words([_RANK.sub("", line).rstrip() for line in tail])
    if said and reason in _OF_SCRIPT and not _TELLING.search(said):
        return f"{happened}; its last line: {said}"
    return f"{said} ({happened})" if said else happened


def _last_words(lines: Sequence[str]) -> str:
    """The error that a traceback ends with, or the last line that says anything."""
    if _TRACEBACK in lines:
        after = lines[lines.index(_TRACEBACK) + 1 :]
        errors = [line for line in after if _ERROR.match(line)]
        if errors:
            return errors[-1]
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
