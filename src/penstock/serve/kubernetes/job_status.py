"""What a PenstockJob says of its job: its status, and the events that ``kubectl describe`` shows."""

import hashlib
from datetime import UTC, datetime
from typing import Any

from penstock.serve.kubernetes.job_schema import GROUP, KIND, VERSION
from penstock.wire import OVER, JobDetail

Manifest = dict[str, Any]

REFUSED = "refused"
EDITED = (
    "the spec was changed after it was submitted; the job goes on as it was submitted. To run the changed one, delete"
    " the object and apply it again"
)
_BAD = frozenset({"failed", "declined", REFUSED})


def status_of(detail: JobDetail, *, edited: bool = False) -> Manifest:
    """As a merge patch: what is None is left out. Times are to the minute, so that a forecast that moves by seconds is
    no news. ``edited``: the object's spec is not the one that was submitted."""
    quote, why = detail.quote, detail.reason
    status: Manifest = {
        "job": detail.id, "state": str(detail.state), "reason": why or None, "devices": len(detail.devices) or None,
        "promise": _minute(quote.finish_at) if quote else None, "forecast": _minute(detail.expected_at),
        "conditions": [
            condition("Accepted", True, ""), condition("Complete", detail.state in OVER, why),
            *([condition("AsSubmitted", False, EDITED)] if edited else []),
        ],
    }  # fmt: skip
    if quote:
        status["quote"] = {
            "verdict": quote.verdict, "reason": quote.reason or None, "finishAt": _minute(quote.finish_at),
            "counterOffer": _minute(quote.counter_offer),
        }  # fmt: skip
    return status


def refusal_of(words: str, generation: int) -> Manifest:
    """Of a spec that cannot be submitted; another one may be."""
    conditions = [condition("Accepted", False, words)]
    return {"state": REFUSED, "reason": words, "conditions": conditions, "observedGeneration": generation}


def condition(kind: str, holds: bool, words: str) -> Manifest:
    return {"type": kind, "status": "True" if holds else "False", **({"message": words} if words else {})}


def events_of(about: Manifest, before: Manifest, after: Manifest, now: datetime) -> list[Manifest]:
    """What of a change of status is worth an Event: another state, a promise that was made or moved."""
    told = []
    if after["state"] != before.get("state"):
        words = f"{after['state']}: {after['reason']}" if after.get("reason") else str(after["state"])
        told.append((str(after["state"]).capitalize(), words, after["state"] in _BAD))
    if (promise := after.get("promise")) and promise != before.get("promise"):
        told.append(("Promised", f"done by {promise} at the latest", False))
    return [_event(about, reason, words, is_bad, now) for reason, words, is_bad in told]


def _event(about: Manifest, reason: str, words: str, is_bad: bool, now: datetime) -> Manifest:
    at = now.astimezone(UTC)
    digest = hashlib.sha256(f"{about['uid']} {reason} {words} {at.timestamp()}".encode()).hexdigest()[:16]
    stamp = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": f"{about['name'][:200]}.{digest}", "namespace": about["namespace"]},
        "involvedObject": {
            "apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, "name": about["name"], "namespace": about["namespace"],
            "uid": about["uid"],
        },
        "reason": reason, "message": words[:1000], "type": "Warning" if is_bad else "Normal", "count": 1,
        "firstTimestamp": stamp, "lastTimestamp": stamp, "source": {"component": "penstock"},
    }  # fmt: skip


def _minute(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:00Z")
