"""Whose job a PenstockJob is: the cluster decides who may create one in a namespace, the settings whose job it is.

A label can only choose among the tenants of its namespace: whoever may write an object could write any label.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.core import InputError

TENANT_LABEL = "penstock.dev/tenant"
DEFAULT_TENANT = "default"


@dataclass(frozen=True, slots=True)
class JobTenants:
    """Tenants by namespace; the first of several is that of objects without a label."""

    by_namespace: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, settings: Mapping[str, str | Sequence[str]], own_namespace: str) -> "JobTenants":
        """As the backend's settings have them; without any, the server's own namespace is the tenant ``default``."""
        given = settings or {own_namespace: DEFAULT_TENANT}
        return cls({name: (names,) if isinstance(names, str) else tuple(names) for name, names in given.items()})

    @property
    def namespaces(self) -> tuple[str, ...]:
        return tuple(self.by_namespace)

    def tenant_of(self, about: Mapping[str, Any]) -> str:
        """By an object's metadata."""
        tenants = self.by_namespace.get(about["namespace"], ())
        asked = (about.get("labels") or {}).get(TENANT_LABEL) or (tenants[0] if tenants else "")
        if asked not in tenants:
            raise InputError(
                f"tenant {asked!r} for an object in namespace {about['namespace']!r}",
                f"one of {', '.join(tenants)}" if tenants else "a namespace of the setting tenants",
                f"Change the label {TENANT_LABEL}, or have tenants changed in the server's backend_settings",
            )
        return asked
