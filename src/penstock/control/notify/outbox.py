"""What was told and what is on its way, on the disk: a crash tells something twice, and never not at all."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.control.notify.notices import Notice
from penstock.control.notify.recipients import Recipient
from penstock.core import CodecError, build, plain
from penstock.tools import write_atomically

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Delivery:
    """One notification for one address, and when it is tried next."""

    notice: Notice
    recipient: Recipient
    attempts: int = 0
    not_before: float = 0.0


@dataclass(slots=True)
class Outbox:
    """``seq`` is the entry of the log up to which jobs were looked at; ``told`` what was told of jobs, by key."""

    path: Path
    seq: int | None = None
    told: dict[str, set[str]] = field(default_factory=dict)
    waiting: list[Delivery] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> "Outbox":
        """As it was kept; one that cannot be read is begun anew, and said so."""
        try:
            data = json.loads(path.read_text())
            waiting = [_delivery(each) for each in data["waiting"]]
            told = {job_id: set(keys) for job_id, keys in data["told"].items()}
            return cls(path, int(data["seq"]), told, waiting)
        except FileNotFoundError:
            return cls(path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, CodecError):
            _log.exception("%s cannot be read: what was still to be told is lost", path)
            return cls(path)

    def keep(self) -> None:
        """Addresses may be secrets, so nobody else reads the file."""
        told = {job_id: sorted(keys) for job_id, keys in self.told.items()}
        waiting = [
            {"notice": plain(each.notice), "recipient": str(each.recipient), "attempts": each.attempts}
            for each in self.waiting
        ]
        text = json.dumps({"seq": self.seq, "told": told, "waiting": waiting})
        write_atomically(self.path, text, durable=True, mode=0o600)


def _delivery(data: Mapping[str, Any]) -> Delivery:
    return Delivery(build(Notice, data["notice"]), Recipient.parse(data["recipient"]), int(data["attempts"]))
