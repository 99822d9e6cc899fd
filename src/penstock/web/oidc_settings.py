"""Which identity provider vouches for people, and what its claims mean here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from penstock.core import InputError, UnknownNameError

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
ROLES = ("viewer", "user", "tenant-admin", "admin")


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """Sign-in with OpenID Connect.

    ``tenant_claim`` and ``role_claim`` name the claims of the ID token that say where somebody belongs and what they
    are; a claim may be a list (groups). ``tenants`` and ``roles`` translate their values. Without ``tenants`` the value
    is the tenant; without a value that is known, the defaults count, and without those nobody is let in.
    """

    issuer: str
    client_id: str
    client_secret_file: Path | None = None
    label: str = "single sign-on"
    scope: str = "openid profile email"
    tenant_claim: str = "tenant"
    role_claim: str = "role"
    tenants: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    default_tenant: str = ""
    default_role: str = ""
    session_s: float = 12 * 3600.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.issuer)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            raise InputError(f"oidc issuer {self.issuer!r}", "an address that begins with https://")
        if not self.client_id:
            raise InputError("oidc without a client_id", "the id the provider knows this server by")
        for role in (*self.roles.values(), *filter(None, [self.default_role])):
            if role not in ROLES:
                raise UnknownNameError.of("role", role, ROLES)

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "OidcSettings":
        """From a table of the configuration file."""
        for key in table:
            if key not in cls.__dataclass_fields__:
                raise UnknownNameError.of("key of oidc:", key, cls.__dataclass_fields__)
        for key in ("issuer", "client_id"):
            if not isinstance(table.get(key), str):
                raise InputError(f"oidc without {key}", "issuer and client_id as the provider tells them")
        file = table.get("client_secret_file")
        return cls(**{**table, "client_secret_file": Path(file).expanduser() if file else None})

    def client_secret(self) -> str:
        return self.client_secret_file.read_text().strip() if self.client_secret_file else ""

    def tenant_of(self, claims: Mapping[str, Any]) -> str:
        """The tenant that these claims mean; empty if none."""
        values = _values(claims.get(self.tenant_claim))
        known = [self.tenants[value] for value in values if value in self.tenants]
        return next(iter(known or ([] if self.tenants else values)), self.default_tenant)

    def role_of(self, claims: Mapping[str, Any]) -> str:
        """The highest role that these claims mean; empty if none."""
        values = _values(claims.get(self.role_claim))
        known = [self.roles.get(value, "" if self.roles else value) for value in values]
        return max((role for role in known if role in ROLES), key=ROLES.index, default=self.default_role)


def _values(claim: Any) -> list[str]:
    given = claim if isinstance(claim, list) else [claim]
    return [value for value in given if isinstance(value, str) and value]
