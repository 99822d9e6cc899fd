"""Secrets on behalf of a principal: whoever submits has those of their tenant, an admin those of any."""

from penstock.control.platform.access import Action, require
from penstock.control.platform.audit import AuditLog
from penstock.control.state.secret_files import SecretRepository, StoredSecret
from penstock.control.state.store import Principal
from penstock.wire import ForbiddenError, MissingError, SecretView, stamp


class TenantSecrets:
    """Stores, lists and deletes secrets; there is no way to read one back."""

    def __init__(self, repository: SecretRepository | None, audit: AuditLog) -> None:
        self._kept = repository
        self._audit = audit

    def list(self, who: Principal, tenant: str | None = None) -> list[SecretView]:
        whose = _own(who, tenant)
        return [_view(secret) for secret in self._repository.list(whose)]

    def put(self, name: str, value: str, who: Principal, tenant: str | None = None) -> SecretView:
        """Store a secret, or another value of one; jobs that start from now on get it."""
        with self._audit.recorded(who, "set secret", f"{name} of {tenant or who.tenant}"):
            whose = _own(who, tenant)
            return _view(self._repository.put(whose, name, value))

    def delete(self, name: str, who: Principal, tenant: str | None = None) -> None:
        with self._audit.recorded(who, "delete secret", f"{name} of {tenant or who.tenant}"):
            whose = _own(who, tenant)
            if not self._repository.delete(whose, name):
                raise MissingError(f"There is no secret {name!r}", "the name of a secret", "GET /v1/secrets lists them")

    @property
    def _repository(self) -> SecretRepository:
        if self._kept is None:
            raise MissingError("This server keeps no secrets", "a server with a data directory of its own")
        return self._kept


def _own(who: Principal, tenant: str | None) -> str:
    require(who, Action.SECRETS)
    tenant = tenant or who.tenant
    if not who.may_see(tenant):
        raise ForbiddenError(f"Secrets of tenant {tenant!r}", f"your own tenant, {who.tenant}", "Leave tenant out")
    return tenant


def _view(secret: StoredSecret) -> SecretView:
    return SecretView(name=secret.name, tenant=secret.tenant, set_at=stamp(secret.set_at))
