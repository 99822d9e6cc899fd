"""How the server's own log looks: for people, or one JSON object a line for whatever collects logs.

What happens to jobs is in the journal (``penstock events``); this is about the process itself.
"""

import json
import logging
import os
import re
import time
import traceback
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from penstock.core import UnknownNameError

VARIABLE = "PENSTOCK_LOG_FORMAT"
_JOB = re.compile(r"\bj-[2-9a-hjkmnp-z]{8}\b")
_FOR_PEOPLE = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"

    @classmethod
    def named(cls, name: str | None) -> "LogFormat":
        """What was asked for, else what the environment says, else text."""
        wanted = name or os.environ.get(VARIABLE) or cls.TEXT.value
        try:
            return cls(wanted)
        except ValueError:
            raise UnknownNameError.of("log format", wanted, [known.value for known in cls]) from None


class JsonLines(logging.Formatter):
    """Keys: ``time`` (RFC 3339, UTC), ``level``, ``logger``, ``message``, and ``job_id`` and ``exception`` if any."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
        }
        if (job := _job_of(record, message)) is not None:
            line["job_id"] = job
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = "".join(traceback.format_exception(record.exc_info[1])).rstrip()
        return json.dumps(line, ensure_ascii=False)


def _job_of(record: logging.LogRecord, message: str) -> str | None:
    """The job it was said to be about (``extra={"job_id": …}``), else the first one it names."""
    given = getattr(record, "job_id", None)
    if given is not None:
        return str(given)
    match = _JOB.search(message)
    return match[0] if match is not None else None


def set_up(chosen: LogFormat, level: int = logging.INFO) -> None:
    """Everything that is logged from now on goes to stderr in this format, times in UTC."""
    handler = logging.StreamHandler()
    formatter = JsonLines() if chosen is LogFormat.JSON else logging.Formatter(_FOR_PEOPLE)
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("alembic").setLevel(max(level, logging.WARNING))
