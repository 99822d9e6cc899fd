"""Tenants of a simulation as one text: ``vision=2:quota=8:group=research,nlp=1,research=3:limit=12``.

Each is a name with its share, and settings with colons between them, as ``penstock tenants set`` has them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from penstock.core import Cluster, EventError, InputError, Tenant, TenantChanged, UnknownNameError
from penstock.policies import Fifo
from penstock.scheduler import Scheduler

_GUIDE = "Try vision=2:quota=8:group=research,nlp=1"


def _truth(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(text)
    return text == "yes"


_SETTINGS: Mapping[str, Callable[[str], Any]] = {
    "quota": int, "limit": int, "group": str, "lending": _truth, "borrowing": _truth, "priority": int,
    "max_priority": int,
}  # fmt: skip


def parse_tenants(text: str) -> tuple[Tenant, ...]:
    """
    >>> [(each.name, each.share, each.quota) for each in parse_tenants("vision=2:quota=8, nlp=1")]
    [('vision', 2.0, 8), ('nlp', 1.0, None)]
    """
    found = [_tenant(part.strip()) for part in text.split(",") if part.strip()]
    if not found or len({each.name for each in found}) < len(found):
        raise InputError(f"the tenants {text!r}", "at least one tenant, every one once", _GUIDE)
    return tuple(found)


def _tenant(part: str) -> Tenant:
    first, *settings = part.split(":")
    name, _, share = first.partition("=")
    given: dict[str, Any] = {}
    for setting in settings:
        key, _, value = setting.partition("=")
        if key not in _SETTINGS:
            raise UnknownNameError.of("setting of a tenant", key, _SETTINGS, _GUIDE)
        given[key] = _read(_SETTINGS[key], value, setting)
    return Tenant(name=name, share=_read(float, share or "1", first), **given)


def _read(kind: Callable[[str], Any], value: str, given: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise InputError(f"{given!r} of a tenant", "a number, a name, yes or no", _GUIDE) from None


def check_tenants(tenants: Sequence[Tenant], names: Collection[str]) -> None:
    """Whether these tenants go together, and whether each has jobs or members."""
    groups = {each.group for each in tenants}
    for each in tenants:
        if each.name not in names and each.name not in groups:
            raise UnknownNameError.of("tenant", each.name, sorted(names), "It has no jobs in this trace")
        if each.name in groups and each.name in names:
            raise InputError(f"the group {each.name!r}", "a name that no job of the trace has", _GUIDE)
    scratch = Scheduler(Cluster.parse("1x1"), Fifo(), stories=False)
    try:
        for each in tenants:
            scratch.apply(TenantChanged(0.0, each))
    except EventError as error:
        raise InputError(str(error), "groups in a tree", _GUIDE) from error
