"""Whether one more tenant may come: jobs that run as the same Unix user can read each other's files.

A server that runs jobs as one user alone keeps tenants apart in its lists and not on its disk. It says so by rejecting
the second tenant, until the operator of the server has accepted that. The first tenant is that of the owner's token.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile

from penstock.core import InputError
from penstock.wire import ForbiddenError


@dataclass(slots=True)
class Tenancy:
    """Admit tenants. ``user_of`` names the user of a tenant's jobs; ``in_use`` the tenants that exist, the first
    one first, each with the token or job that brings it; ``remedy`` says how to isolate them."""

    user_of: Callable[[str], str]
    in_use: Callable[[], dict[str, str]]
    accept_shared: bool = False
    remedy: str = "Set run_as in the server's configuration"
    _admitted: frozenset[str] = frozenset()
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, tenant: str) -> None:
        """Let a tenant have a token or a job, unless its jobs would run as the same user as those of an earlier one."""
        if self.accept_shared or tenant in self._admitted:
            return
        with self._lock:
            there = self.in_use()
            if sharing := self.sharing(tenant, there):
                raise ForbiddenError(
                    f"Tenant {tenant!r} would not be isolated from {', '.join(sharing)}: jobs of both run as the Unix "
                    f"user {self.user_of(tenant)!r} and can read each other's files",
                    "one tenant for each Unix user, the first being that of the owner's token",
                    f"Use the tenant {sharing[0].partition(' ')[0]}. {self.remedy}, or accept_shared_user if tenants "
                    "trust each other",
                )
            self._admitted = self._admitted & there.keys() | {tenant}

    def sharing(self, tenant: str, there: Mapping[str, str]) -> list[str]:
        """Earlier tenants whose jobs run as the same user, each with what brings it."""
        user = self.user_of(tenant)
        earlier = takewhile(lambda other: other != tenant, there)
        return [f"{other} ({there[other]})" for other in earlier if self._user_of_other(other) == user]

    def _user_of_other(self, tenant: str) -> str | None:
        """None for a tenant that may not run jobs any more."""
        try:
            return self.user_of(tenant)
        except InputError:
            return None


ANYBODY = Tenancy(lambda _: "", dict, accept_shared=True)
"""Tenants are only names."""
