"""Every decision of a run as plain data: what happened before it, who was answered, who got devices and who lost them.

Whoever is suspended or shrunk names the jobs that hold its devices after the decision. That is read off the devices
themselves, whatever the policy says about its reasons.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.core import Admit, Decline, Defer, Event, Grant, Resize, Resume, Start, Stop, Suspend, Verdict
from penstock.simulate.forward import ForwardStep
from penstock.simulate.ledger import Ledger

_HOW = {Start: "start", Resume: "resume"}


class DecisionLog:
    """Grows by one entry per decision; what is empty is left out of it."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def add(self, step: ForwardStep, events: Sequence[Event], ledger: Ledger) -> None:
        """Before the ``ledger`` carries the instructions out, so that it says what everybody held until now."""
        grants = [each for each in step.instructions if isinstance(each, Start | Resume | Resize)]
        held = {each.grant.job_id: ledger.grant_of(each.grant.job_id) for each in grants}
        takers = _takers((each.grant, held[each.grant.job_id]) for each in grants)
        entry: dict[str, Any] = {
            "at": step.at, "decision_ms": round(1e3 * step.decision_s, 3),
            "events": dict(Counter(type(event).__name__ for event in events)),
            "finished": [each.job_id for each in step.finished],
            "answered": [
                {"job": each.quote.job_id, "verdict": Verdict(each.quote.verdict).value, "reason": each.quote.reason}
                for each in step.instructions
                if isinstance(each, Admit | Defer | Decline)
            ],
            "granted": [_granted(each, held[each.grant.job_id], takers) for each in grants],
            "suspended": [
                _suspended(each, ledger.grant_of(each.job_id), takers, ledger)
                for each in step.instructions
                if isinstance(each, Suspend)
            ],
            "stopped": [
                {"job": each.job_id, "reason": each.reason} for each in step.instructions if isinstance(each, Stop)
            ],
        }  # fmt: skip
        self.entries.append({name: value for name, value in entry.items() if value or name in ("at", "decision_ms")})


def _takers(changes: Iterable[tuple[Grant, Grant | None]]) -> dict[int, str]:
    """Who gets each device that changes hands."""
    return {
        device: grant.job_id
        for grant, held in changes
        for device in set(grant.devices).difference(held.devices if held is not None else ())
    }


def _to(lost: Iterable[int], takers: dict[int, str]) -> list[str]:
    return list(dict.fromkeys(takers[device] for device in sorted(lost) if device in takers))


def _granted(each: Start | Resume | Resize, held: Grant | None, takers: dict[int, str]) -> dict[str, Any]:
    grant, before = each.grant, held.width if held is not None else 0
    how = _HOW.get(type(each)) or ("grow" if grant.width > before else "shrink" if grant.width < before else "move")
    told: dict[str, Any] = {"job": grant.job_id, "how": how, "kind": grant.kind, "devices": grant.width}
    if isinstance(each, Resize):
        told["before"] = before
    if held is not None and (to := _to(set(held.devices).difference(grant.devices), takers)):
        told["to"] = to
    return told


def _suspended(each: Suspend, held: Grant | None, takers: dict[int, str], ledger: Ledger) -> dict[str, Any]:
    """``by`` is the policy, a failure or the job's user; ``to`` are the jobs that have its devices now."""
    devices = held.devices if held is not None else ()
    told = {"job": each.job_id, "by": ledger.stopper_of(each.job_id), "devices": len(devices)}
    return told | ({"to": to} if (to := _to(devices, takers)) else {}) | ({"why": each.why} if each.why else {})
