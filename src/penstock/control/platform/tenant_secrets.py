"""Secrets on behalf of a principal: everybody has those of their tenant, an admin those of any."""

from penstock.control.state.secret_files import SecretRepository, StoredSecret
from penstock.control.state.store import Principal
from penstock.wire import ForbiddenError, MissingError, SecretView, stamp


class TenantSecrets:
    """Stores, lists and deletes secrets; there is no way to read one back."""

    def __init__(self, repository: SecretRepository | None) -> None:
        self._kept = repository

    def list(self, who: Principal, tenant: str | None = None) -> list[SecretView]:
        return [_view(secret) for secret in self._repository.list(_own(who, tenant))]

    def put(self, name: str, value: str, who: Principal, tenant: str | None = None) -> SecretView:
        """Store a secret, or another value of one; jobs that start from now on get it."""
        return _view(self._repository.put(_own(who, tenant), name, value))

    def delete(self, name: str, who: Principal, tenant: str | None = None) -> None:
        if not self._repository.delete(_own(who, tenant), name):
            raise MissingError(f"There is no secret {name!r}", "the name of a secret", "GET /v1/secrets lists them")

    @property
    def _repository(self) -> SecretRepository:
        if self._kept is None:
            raise MissingError("This server keeps no secrets", "a server with a data directory of its own")
        return self._kept


def _own(who: Principal, tenant: str | None) -> str:
    tenant = tenant or who.tenant
    if not who.may_see(tenant):
        raise ForbiddenError(f"Secrets of tenant {tenant!r}", f"your own tenant, {who.tenant}", "Leave tenant out")
    return tenant


def _view(secret: StoredSecret) -> SecretView:
    return SecretView(name=secret.name, tenant=secret.tenant, set_at=stamp(secret.set_at))
