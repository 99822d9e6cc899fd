"""Who may do what: one table of roles and actions, which the API and the dashboard both ask.

A role says what somebody is, a scope which part of that one token may be used for. Everybody but an admin is
confined to one tenant besides; that is asked where things are looked up, so that what belongs to others does not exist.
"""

from enum import StrEnum

from penstock.control.state.store import Principal, Role, Scope
from penstock.wire import ForbiddenError


class Action(StrEnum):
    """Something that one may, or may not, do."""

    LOOK = "look"
    SUBMIT = "submit"
    STEER = "steer"
    EXECUTE = "run commands in jobs"
    SECRETS = "manage secrets"
    TOKENS = "manage tokens"
    AUDIT = "read the audit log"
    QUOTAS = "set quotas"
    DRAIN = "drain nodes"
    REPLAY = "replay the past"
    SWITCH = "switch the policy"
    MEASURE = "read metrics"


_VIEWER = frozenset({Action.LOOK})
_USER = _VIEWER | {Action.SUBMIT, Action.STEER, Action.EXECUTE, Action.SECRETS}
_TENANT_ADMIN = _USER | {Action.TOKENS, Action.AUDIT}

RIGHTS: dict[Role, frozenset[Action]] = {
    Role.VIEWER: _VIEWER,
    Role.USER: _USER,
    Role.TENANT_ADMIN: _TENANT_ADMIN,
    Role.ADMIN: frozenset(Action),
}
"""What each role may do; a tenant admin within its tenant only, as everybody but an admin."""

SCOPES: dict[Action, Scope] = {
    Action.LOOK: Scope.READ,
    Action.SUBMIT: Scope.SUBMIT,
    Action.STEER: Scope.STEER,
    Action.EXECUTE: Scope.SUBMIT,
    Action.SECRETS: Scope.SUBMIT,
    Action.MEASURE: Scope.METRICS,
    Action.TOKENS: Scope.ADMIN,
    Action.AUDIT: Scope.ADMIN,
    Action.QUOTAS: Scope.ADMIN,
    Action.DRAIN: Scope.ADMIN,
    Action.REPLAY: Scope.ADMIN,
    Action.SWITCH: Scope.ADMIN,
}
"""The scope a token needs for each action, if it is confined to some."""

RANK = {role: rank for rank, role in enumerate(Role)}


def may(principal: Principal, action: Action) -> bool:
    return action in RIGHTS[principal.role] and (not principal.scope or SCOPES[action] in principal.scope)


def require(principal: Principal, action: Action) -> Principal:
    """The same principal, if it may; raises :class:`~penstock.wire.ForbiddenError`."""
    if action not in RIGHTS[principal.role]:
        able = " or ".join(role for role in reversed(Role) if action in RIGHTS[role])
        raise ForbiddenError(
            f"This token has the role {principal.role}, which may not {action}", f"the role {able}", "Ask an admin"
        )
    if not may(principal, action):
        raise ForbiddenError(
            f"This token is for {', '.join(sorted(principal.scope))} only and may not {action}",
            f"a token with the scope {SCOPES[action]}", "Use another token",
        )  # fmt: skip
    return principal
