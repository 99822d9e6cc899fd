"""Whether one more tenant may come: jobs that run as the same Unix user can read each other's files.

A server that runs jobs as one user alone keeps tenants apart in its lists and not on its disk. It says so by refusing
the second tenant, until whoever runs it has accepted that.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from penstock.core import InputError
from penstock.wire import ForbiddenError


@dataclass(slots=True)
class Tenancy:
    """Admits tenants. ``user_of`` names the Unix user of a tenant's jobs, ``in_use`` the tenants there are by now."""

    user_of: Callable[[str], str]
    in_use: Callable[[], Iterable[str]]
    accept_shared: bool = False
    _admitted: frozenset[str] = frozenset()
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, tenant: str) -> None:
        """Let a tenant have a token or a job, unless it would share its user with another."""
        if self.accept_shared or tenant in self._admitted:
            return
        with self._lock:
            there = frozenset(self.in_use())
            if sharing := self.sharing(tenant, there):
                raise ForbiddenError(
                    f"Tenant {tenant!r} would not be isolated from {', '.join(sharing)}: jobs of both run as the Unix "
                    f"user {self.user_of(tenant)!r} and can read each other's files",
                    "one tenant for each Unix user",
                    "Set run_as in the server's configuration, or accept_shared_user if tenants trust each other",
                )
            self._admitted = there | {tenant}

    def sharing(self, tenant: str, there: Iterable[str]) -> list[str]:
        """Other tenants whose jobs run as the same user."""
        user = self.user_of(tenant)
        return sorted(other for other in there if other != tenant and self._user_of_other(other) == user)

    def _user_of_other(self, tenant: str) -> str | None:
        """None for a tenant that may not run jobs any more."""
        try:
            return self.user_of(tenant)
        except InputError:
            return None


ANYBODY = Tenancy(lambda _: "", tuple, accept_shared=True)
"""Tenants are only names."""
