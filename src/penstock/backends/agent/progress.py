"""How a script that does not use the library tells how far it is: documented lines of its own output.

::

    penstock: step=120 total=1000 loss=1.23 samples_per_s=512
    penstock: val_acc=0.91 lr=3e-4
    penstock: checkpointed step=120 path=/data/ckpt/120
    penstock: unreadable step=120 used=100 reason=the newest checkpoint is cut off

Every other ``name=number`` of a line is a metric, of the line's step or of the last that was told. Anything that does
not read as such a line is ordinary output. A line that names a step which is no number, or one that no training
reaches, is passed over and complained about (:func:`complaint`): it never disturbs a run, until there are too many.
"""

import math
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.core import (
    MOST_METRICS,
    MOST_STEPS,
    MetricValue,
    ReportKind,
    clean_text,
    is_count,
    is_duration,
    is_metric_name,
)
from penstock.tools import parse_json, read_regular

PREFIX = "penstock:"
RECORD_EVERY_S = 0.5
"""How often progress is written down; in between only the latest counts."""
_LARGEST_FILE = 1 << 20
_CHECKPOINTED, _UNREADABLE = "checkpointed", "unreadable"
_REASON = " reason="
_STEP = "step="
_SHOWN = 80


def _count(text: str) -> int:
    if not is_count(number := int(text)):
        raise ValueError(text)
    return number


def _figure(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(text)
    return number


def _seconds(text: str) -> float:
    if not is_duration(number := float(text)):
        raise ValueError(text)
    return number


_PROGRESS_FIELDS: dict[str, Callable[[str], Any]] = {
    "step": _count, "total": _count, "loss": _figure, "samples_per_s": _figure,
}  # fmt: skip
_CHECKPOINT_FIELDS: dict[str, Callable[[str], Any]] = {"step": _count, "path": clean_text, "blocking_s": _seconds}

Said = tuple[ReportKind, dict[str, Any]]


class ProgressRecorder:
    """Passes progress on to ``record``, as often as is worth writing down."""

    def __init__(self, record: Callable[[dict[str, Any]], None]) -> None:
        self._record = record
        self._latest: dict[str, Any] | None = None
        self._recorded_at = 0.0
        self.has_begun = False
        """Whether any progress was told."""

    def take(self, values: dict[str, Any]) -> None:
        """What a worker says of its progress; without a step it says nothing."""
        said = clean_progress(values)
        if "step" in said:
            self._latest, self.has_begun = said, True
            self.flush_when_due()

    def flush_when_due(self) -> None:
        if time.monotonic() - self._recorded_at >= RECORD_EVERY_S:
            self.flush()

    def flush(self) -> None:
        if self._latest is not None:
            said, self._latest, self._recorded_at = self._latest, None, time.monotonic()
            self._record(said)


class ProgressFile:
    """The file that a script may write its progress to; read when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = 0

    def news(self) -> dict[str, Any] | None:
        """What it says now, unless that is known."""
        with suppress(OSError, UnicodeDecodeError):
            stamp = self._path.lstat().st_mtime_ns
            if stamp != self._stamp and (
                said := parse_file(read_regular(self._path, _LARGEST_FILE).decode(errors="replace"))
            ):
                self._stamp = stamp
                return said[1]
        return None


def complaint(line: str) -> str | None:
    """What is wrong with a line that means to say how far training is; nothing for any other line."""
    text = line.strip()
    if not text.startswith(PREFIX) or parse_line(line) is not None:
        return None
    if not any(word.startswith(_STEP) for word in text.split()):
        return None
    return f"a line without a step from 0 to {MOST_STEPS}: {clean_text(text[:_SHOWN])!r}"


def parse_line(line: str) -> Said | None:
    """What a line of output says about the run, if it says anything."""
    text = line.strip()
    if not text.startswith(PREFIX):
        return None
    words = text[len(PREFIX) :].split()
    if words[:1] == [_CHECKPOINTED]:
        return _with_step(ReportKind.CHECKPOINTED, words[1:], _CHECKPOINT_FIELDS)
    if words[:1] == [_UNREADABLE]:
        figures, _, reason = text.partition(_REASON)
        said = _with_step(ReportKind.CHECKPOINT_UNREADABLE, figures.split(), {"step": _count, "used": _count})
        return said and (said[0], {**said[1], "reason": clean_text(reason)})
    return _with_step(ReportKind.PROGRESS, words, _PROGRESS_FIELDS)


def parse_metrics(line: str) -> list[MetricValue]:
    """The metrics in a line of output; those of a line without a step have none, one with a wrong step has none."""
    text = line.strip()
    if not text.startswith(PREFIX):
        return []
    words = text[len(PREFIX) :].split(maxsplit=MOST_METRICS)[:MOST_METRICS]
    if words[:1] in ([_CHECKPOINTED], [_UNREADABLE]):
        return []
    said = dict(word.split("=", 1) for word in words if "=" in word)
    step = _convert(said.items(), {"step": _count}).get("step")
    if step is None and "step" in said:
        return []
    return [
        MetricValue(name=name, value=value, step=step)
        for name, value in _convert(said.items(), dict.fromkeys(filter(is_metric_name, said), float)).items()
    ]


def parse_file(text: str) -> Said | None:
    """What a progress file says: its last line, with or without the prefix, or a JSON object."""
    lines = text.strip().splitlines()
    if not lines:
        return None
    if lines[-1].startswith("{"):
        return _parse_object(lines[-1])
    line = lines[-1] if lines[-1].startswith(PREFIX) else f"{PREFIX} {lines[-1]}"
    return parse_line(line)


def clean_progress(values: dict[str, Any]) -> dict[str, Any]:
    """The fields of a progress message that can be used; infinities and text have no place in a journal."""
    return _convert(((key, str(value)) for key, value in values.items() if _is_number(value)), _PROGRESS_FIELDS)


def _is_number(value: object) -> bool:
    """Whether a value may be one. An integer of thousands of digits is none: Python would refuse to write it down."""
    return isinstance(value, str | float) or (isinstance(value, int) and is_count(abs(value)))


def _parse_object(text: str) -> Said | None:
    try:
        values = parse_json(text, _LARGEST_FILE)
    except ValueError:
        return None
    said = clean_progress(values) if isinstance(values, dict) else {}
    return (ReportKind.PROGRESS, said) if "step" in said else None


def _with_step(kind: ReportKind, words: list[str], allowed: dict[str, Callable[[str], Any]]) -> Said | None:
    pairs = ((name, value) for name, _, value in (word.partition("=") for word in words))
    said = _convert(pairs, allowed)
    return (kind, said) if "step" in said else None


def _convert(pairs: Iterable[tuple[str, str]], allowed: dict[str, Callable[[str], Any]]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for name, text in pairs:
        if name not in allowed:
            continue
        with suppress(ValueError):
            said[name] = allowed[name](text)
    return said
