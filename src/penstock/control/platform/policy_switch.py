"""The policy in force, and switching it while jobs run.

A switch is an entry of the log like any other, so that whoever reads it knows under which rules a decision was taken.
Jobs keep their devices, and promises stay promises; where the new rules would endanger some, they are named and nothing
is changed, unless somebody insists. What was chosen live outlasts restarts until the configuration changes.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.control.future.promise_risk import PromiseRisk, endangered, promised_jobs, risk_text
from penstock.control.platform.access import Action, require
from penstock.control.platform.audit import AuditLog
from penstock.control.state.entries import Configured
from penstock.control.state.journal import Journal
from penstock.control.state.store import Principal
from penstock.core import InputError, parse_duration
from penstock.policies import (
    PolicyReference,
    parameters_of,
    policy_class,
    policy_named,
    require_installed,
    settings_of,
    show_value,
)
from penstock.simulate import refuse_replica
from penstock.wire import (
    ConflictError,
    PolicyParameterView,
    PolicyRequest,
    PolicyView,
    PromiseRiskView,
    UnavailableError,
    stamp,
)

_MOST_TRIES = 3


class PolicySwitch:
    """Shows the policy in force, and puts another in its place."""

    def __init__(self, journal: Journal, audit: AuditLog, nudge: Callable[[], None]) -> None:
        self._journal = journal
        self._audit = audit
        self._nudge = nudge

    def view(self, who: Principal) -> PolicyView:
        """The policy in force, with its parameters."""
        require(who, Action.LOOK)
        return self._view()

    def switch(self, wanted: PolicyRequest, who: Principal) -> PolicyView:
        """Another policy, or other settings of it, from now on; ``force`` takes promises back that it endangers."""
        with self._audit.recorded(who, "switch policy", wanted.policy):
            require(who, Action.SWITCH)
            reference = _checked(wanted.policy, self._settings().policy)
            risks = self._take_up(reference, _slot(wanted.slot), who.name, force=wanted.force)
        self._nudge()
        return self._view(risks)

    def _take_up(self, policy: str, slot: float | None, by: str, *, force: bool) -> Sequence[PromiseRisk]:
        for _ in range(_MOST_TRIES):
            with self._journal.reading() as state:
                present = state.scheduler.twin()
                settings = _chosen(self._settings(), policy, slot, by, self._journal.now())
                known = promised_jobs(present)
            risks = endangered(present, settings)
            if risks and not force:
                raise _refusal(policy, risks)
            with self._journal.lock:
                if promised_jobs(self._journal.state.scheduler) <= known:
                    self._journal.record(replace(settings, at=self._journal.now()))
                    return risks
        raise UnavailableError("promises are being made faster than they can be looked at", hint="Try again")

    def _settings(self) -> Configured:
        settings = self._journal.state.settings
        if settings is None:
            raise UnavailableError("the server is starting", "a server that runs", "Try again")
        return settings

    def _view(self, risks: Sequence[PromiseRisk] = ()) -> PolicyView:
        with self._journal.reading() as state:
            settings, promised = self._settings(), len(promised_jobs(state.scheduler))
            kept, slot = state.scheduler.policy.keeps_promises, state.scheduler.slot
        reference = PolicyReference.parse(settings.policy)
        return PolicyView.model_validate(
            {
                "policy": reference.name, "written": settings.policy, "parameters": _parameters(reference),
                "slot_s": slot, "since": stamp(settings.at), "by": settings.by or None,
                "configured": settings.instead_of.policy if settings.instead_of else settings.policy,
                "keeps_promises": kept, "promises": promised,
                "endangered": [_risk_view(risk) for risk in risks],
            }
        )  # fmt: skip


def _checked(text: str, in_force: str) -> str:
    """The policy that somebody wrote, known and with settings that make sense; code of one's own only if it runs."""
    refuse_replica(text)
    if PolicyReference.parse(text).name != PolicyReference.parse(in_force).name:
        require_installed(text)
    policy_named(text)
    return text.strip()


def _slot(text: str | None) -> float | None:
    if text is None:
        return None
    slot = parse_duration(text)
    if not 0 <= slot < math.inf:
        raise InputError(f"a slot of {text}", "zero or more seconds", "Try 60s")
    return slot


def _chosen(settings: Configured, policy: str, slot: float | None, by: str, now: float) -> Configured:
    """The rules as somebody chose them, and what they stand in for; what the configuration says is no choice."""
    configured = settings.configured_rules
    chosen = replace(
        settings, at=now, policy=policy, slot=settings.slot if slot is None else slot, by=by, instead_of=configured
    )  # fmt: skip
    is_configured = (chosen.policy, chosen.slot) == (configured.policy, configured.slot)
    return replace(chosen, instead_of=None) if is_configured else chosen


def _refusal(policy: str, risks: Sequence[PromiseRisk]) -> ConflictError:
    return ConflictError(
        f"{policy} would endanger {risk_text(risks)}",
        "a policy that keeps what was promised",
        "Wait until these jobs are over, or insist with --force",
    )


def _parameters(reference: PolicyReference) -> list[PolicyParameterView]:
    """Nothing of a policy that is no longer there."""
    try:
        policy = policy_class(reference.name)
        given = settings_of(reference.name, policy, dict(reference.given))
    except InputError:
        return []
    return [
        PolicyParameterView(
            name=each.name,
            value=show_value(given.get(each.name, each.default)),
            default=show_value(each.default),
            allowed=each.allowed,
            meaning=each.meaning,
        )
        for each in parameters_of(policy)
    ]


def _risk_view(risk: PromiseRisk) -> PromiseRiskView:
    return PromiseRiskView.model_validate(
        {"job_id": risk.job_id, "deadline": stamp(risk.deadline), "expected_at": stamp(risk.expected_at)}
    )
