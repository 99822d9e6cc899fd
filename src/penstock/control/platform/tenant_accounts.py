"""Tenants as people see and set them: shares, quotas and groups, what each holds of them, and how fairly it fared."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.control.platform.access import Action, require
from penstock.control.platform.audit import AuditLog
from penstock.control.state.entries import TenantConfigured, TenantDismissed
from penstock.control.state.journal import Journal
from penstock.control.state.platform_state import PlatformState
from penstock.control.state.store import Principal
from penstock.core import EventError, InputError, Tenant, TenantChanged, TenantRemoved
from penstock.policies import TenantTable
from penstock.scheduler import Scheduler
from penstock.wire import ConflictError, MissingError, TenantAccountView, TenantRequest

_LISTED = "`penstock tenants` lists them"


class TenantAccounts:
    """What tenants may have and have. Everybody sees their own; admins see all, and set them."""

    def __init__(self, journal: Journal, audit: AuditLog) -> None:
        self._journal = journal
        self._audit = audit

    def views(self, who: Principal) -> list[TenantAccountView]:
        """Every tenant and group, groups before their members."""
        require(who, Action.LOOK)
        with self._journal.reading() as state:
            found = tenant_accounts(state, self._journal.now())
        return [view for view in found if who.may_see(view.name)]

    def set(self, name: str, wanted: TenantRequest, who: Principal) -> TenantAccountView:
        """Change what a tenant may have; one that nobody has heard of appears by that."""
        with self._audit.recorded(who, "set tenant", name):
            require(who, Action.QUOTAS)
            with self._journal.lock:
                state = self._journal.state
                tenant = _changed(_settings(state, name), wanted)
                _check(state, tenant, at := self._journal.now())
                self._journal.record(TenantConfigured(at=at, tenant=tenant, by=who.name))
        return self._view(name)

    def remove(self, name: str, who: Principal) -> None:
        """Forget a tenant that has no jobs, or a group without members."""
        with self._audit.recorded(who, "remove tenant", name):
            require(who, Action.QUOTAS)
            with self._journal.lock:
                state = self._journal.state
                if name not in {each.name for each in state.scheduler.tenant_settings()}:
                    raise MissingError(f"There is no tenant {name!r}", "a tenant with a job or a setting", _LISTED)
                if jobs := state.active.count(name):
                    raise ConflictError(
                        f"Tenant {name} has {jobs} jobs that are not over", "a tenant without jobs",
                        "Wait until they have ended, or cancel them",
                    )  # fmt: skip
                _tried(state, TenantRemoved(at := self._journal.now(), name))
                self._journal.record(TenantDismissed(at=at, name=name, by=who.name))

    def _view(self, name: str) -> TenantAccountView:
        with self._journal.reading() as state:
            return next(view for view in tenant_accounts(state, self._journal.now()) if view.name == name)


def tenant_accounts(state: PlatformState, now: float) -> list[TenantAccountView]:
    """Every tenant and group that counts, a group before its members, with sums over these."""
    table, settings = state.scheduler.tenants(now), state.scheduler.tenant_settings()
    places = {name: position for position, name in enumerate(table.names)}
    members: dict[str, list[str]] = {}
    for each in settings:
        members.setdefault(each.group, []).append(each.name)
    by_name = {each.name: each for each in settings}
    devices = _devices(state.scheduler)
    free = sum(state.scheduler.capacity(kind) for kind in state.scheduler.cluster.kinds) - int(table.held.sum())
    found: list[TenantAccountView] = []

    def list_group(group: str) -> None:
        for name in sorted(members.get(group, ())):
            inside = [places[each] for each in _leaves(name, members)]
            view = _account(by_name[name], sorted(members.get(name, ())), table, inside, free)
            promisable = _promisable(by_name[name], by_name, devices)
            found.append(view.model_copy(update={"promisable": promisable}))
            list_group(name)

    list_group("")
    return found


def _leaves(name: str, members: dict[str, list[str]]) -> list[str]:
    inside = members.get(name)
    return [name] if not inside else [leaf for each in inside for leaf in _leaves(each, members)]


def _account(tenant: Tenant, members: list[str], table: TenantTable, inside: list[int], free: int) -> TenantAccountView:
    held = int(table.held[inside].sum())
    used, deserved = float(table.used_lately[inside].sum()), float(table.deserved_lately[inside].sum())
    return TenantAccountView(
        name=tenant.name, group=tenant.group, members=members, share=tenant.share, quota=tenant.quota,
        limit=tenant.limit, lending=tenant.lending, borrowing=tenant.borrowing, priority=tenant.priority,
        max_priority=tenant.max_priority, held=held, wanted=int(table.wanted[inside].sum()),
        borrowed=max(held - tenant.guaranteed, 0) if tenant.quota is not None else 0,
        lent=max(tenant.guaranteed - held - free, 0),
        entitled=float(table.entitled[inside].sum()), used_device_seconds=used, deserved_device_seconds=deserved,
        fairness=used / deserved if deserved > 0 else 1.0,
    )  # fmt: skip


def _settings(state: PlatformState, name: str) -> Tenant:
    known = {each.name: each for each in state.scheduler.tenant_settings()}
    return known.get(name) or Tenant(name=name)


def _changed(tenant: Tenant, wanted: TenantRequest) -> Tenant:
    given: dict[str, Any] = {key: getattr(wanted, key) for key in wanted.model_fields_set}
    for key in ("share", "lending", "borrowing", "priority"):
        if key in given and given[key] is None:
            raise InputError(f"no {key}", "a value for it", "Leave it out if it shall stay as it is")
    if "group" in given:
        given["group"] = given["group"] or ""
    return replace(tenant, **given)


def _check(state: PlatformState, tenant: Tenant, at: float) -> None:
    """Whether there is as much as is guaranteed, and whether the group may be one."""
    scheduler = state.scheduler
    if tenant.group and (jobs := state.active.count(tenant.group)):
        raise ConflictError(
            f"{tenant.group!r} has {jobs} jobs of its own that are not over", "a group without jobs of its own",
            "Choose another name for the group",
        )  # fmt: skip
    devices, before = _devices(scheduler), _guaranteed("", scheduler.tenant_settings())
    if _guaranteed("", _tried(state, TenantChanged(at, tenant)).tenant_settings()) > max(devices, before):
        raise InputError(
            f"a quota of {tenant.quota} for {tenant.name!r}, with all quotas before it {before} devices",
            f"together at most the {devices} devices of the cluster", "Lower another quota first",
        )  # fmt: skip


def _guaranteed(group: str, tenants: Sequence[Tenant]) -> int:
    """Devices that the members of a group are guaranteed: of each its quota, or those of its own members if more."""
    inside = [each for each in tenants if each.group == group]
    return sum(max(each.guaranteed, _guaranteed(each.name, tenants)) for each in inside)


def _promisable(tenant: Tenant, settings: Mapping[str, Tenant], devices: int) -> int:
    """Devices that deadlines may be promised on: no quota of others, within the limits of the tenant and its groups."""
    most, beside, each = devices, 0, tenant
    while True:
        most = most if each.limit is None else min(most, each.limit)
        beside += _guaranteed(each.group, [other for other in settings.values() if other is not each])
        if not each.group:
            return max(min(most, devices - beside), 0)
        each = settings[each.group]


def _devices(scheduler: Scheduler) -> int:
    return sum(scheduler.cluster.capacity(kind) for kind in scheduler.cluster.kinds)


def _tried(state: PlatformState, event: TenantChanged | TenantRemoved) -> Scheduler:
    """The scheduler after the event; what it rejects is rejected here: a group inside itself, or with members."""
    try:
        (twin := state.scheduler.twin()).apply(event)
    except EventError as error:
        raise ConflictError(str(error), "tenants in a tree of groups", _LISTED) from error
    return twin
