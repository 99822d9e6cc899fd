"""Which Unix user the jobs of a tenant run as.

One name for everybody, a pattern with ``{tenant}`` in it, or a table from tenants to names, in which ``*`` stands for
all others. Without any of these jobs run as the server's own user, and nothing keeps them from what that user may do.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from penstock.core import InputError
from penstock.tools import UnixUser

EVERY_OTHER = "*"
_PLACE = "{tenant}"


@dataclass(frozen=True, slots=True)
class TenantUsers:
    """Users by tenant; ``TenantUsers({})`` has none."""

    names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of_setting(cls, setting: str | Mapping[str, str] | None) -> "TenantUsers":
        """What ``run_as`` says in a configuration; users it names must exist, and none may be root or ourselves."""
        if not setting:
            return cls()
        names = {EVERY_OTHER: setting} if isinstance(setting, str) else dict(setting)
        if os.geteuid() != 0:
            raise InputError(
                "run_as is set, but this server does not run as root", "run_as for a server that runs as root",
                "Start the server as root, or leave run_as out and accept that jobs run as your own user",
            )  # fmt: skip
        for name in names.values():
            if _PLACE not in name:
                _account(name)
        return cls(MappingProxyType(names))

    @property
    def any(self) -> bool:
        """Whether jobs run as other users at all."""
        return bool(self.names)

    def of(self, tenant: str) -> UnixUser | None:
        """The user of a tenant's jobs, None for the server's own; a tenant that has none is refused."""
        if not self.names:
            return None
        name = self.names.get(tenant) or self.names.get(EVERY_OTHER)
        if name is None:
            raise InputError(
                f"no Unix user is named for tenant {tenant!r}", f"tenants in run_as: {', '.join(sorted(self.names))}",
                f'Add {tenant} = "USER" to run_as in the server\'s configuration',
            )  # fmt: skip
        return _account(name.replace(_PLACE, tenant))

    def named(self) -> tuple[UnixUser, ...]:
        """The users that are known before any tenant is."""
        return tuple(_account(name) for name in sorted({*self.names.values()}) if _PLACE not in name)


SERVERS_OWN = TenantUsers()
"""Every job runs as whoever runs the server."""


def _account(name: str) -> UnixUser:
    try:
        user = UnixUser.named(name)
    except KeyError:
        raise InputError(
            f"run_as: there is no Unix user {name!r}", "a user of this machine", f"Try useradd --system {name}"
        ) from None
    if user.uid in (0, os.geteuid()):
        raise InputError(
            f"run_as: jobs of the user {name!r} would have every right of this server", "a user without rights",
            "Name another one, such as nobody",
        )  # fmt: skip
    return user
