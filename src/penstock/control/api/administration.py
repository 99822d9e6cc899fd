"""Routes of admins: tokens, quotas, tenants, the audit log."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from penstock.control.api.dependencies import Caller, Service
from penstock.control.api.inputs import MOST_NUMBER, Name
from penstock.core import TENANT_NAME
from penstock.wire import (
    AuditPage,
    QuotaRequest,
    QuotaView,
    StorableText,
    TenantAccountView,
    TenantRequest,
    TokenRequest,
    TokenView,
)

router = APIRouter(prefix="/v1", tags=["administration"])
Tenant = Annotated[str, Path(pattern=rf"^(\*|{TENANT_NAME})$", max_length=63)]
OneTenant = Annotated[str, Path(pattern=rf"^{TENANT_NAME}$", max_length=63)]


@router.get("/tokens")
def tokens(platform: Service, who: Caller) -> list[TokenView]:
    """Tokens that are valid, without their secrets; a tenant admin sees those of its tenant."""
    return platform.administration.tokens(who)


@router.post("/tokens", status_code=201)
def create_token(wanted: TokenRequest, platform: Service, who: Caller) -> TokenView:
    """A new token. Its secret is in this answer and nowhere else."""
    return platform.administration.create_token(wanted, who)


@router.delete("/tokens/{token_id}", status_code=204)
def revoke_token(token_id: Name, platform: Service, who: Caller) -> None:
    """Make a token worthless; its sessions and streams end at once."""
    platform.administration.revoke_token(token_id, who)


@router.get("/audit")
def audit(
    platform: Service,
    who: Caller,
    before: Annotated[int | None, Query(ge=0, le=MOST_NUMBER)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    action: StorableText | None = None,
) -> AuditPage:
    """Who did what, when, from where, and how it went; the newest first."""
    return platform.administration.audit(who, before=before, limit=limit, action=action)


@router.get("/quotas")
def quotas(platform: Service, who: Caller) -> list[QuotaView]:
    """Limits of tenants; ``*`` are those of every tenant without its own."""
    return platform.administration.quotas(who)


@router.put("/quotas/{tenant}")
def set_quota(tenant: Tenant, wanted: QuotaRequest, platform: Service, who: Caller) -> QuotaView:
    """Set the limits of a tenant, or with ``*`` of every tenant without its own."""
    return platform.administration.set_quota(tenant, wanted, who)


@router.get("/tenants")
def tenants(platform: Service, who: Caller) -> list[TenantAccountView]:
    """Tenants and groups of them: what is theirs, what they hold and lend, and how fairly they fared."""
    return platform.tenants.views(who)


@router.put("/tenants/{tenant}")
def set_tenant(tenant: OneTenant, wanted: TenantRequest, platform: Service, who: Caller) -> TenantAccountView:
    """Change what a tenant may have; what is not given stays as it is."""
    return platform.tenants.set(tenant, wanted, who)


@router.delete("/tenants/{tenant}", status_code=204)
def remove_tenant(tenant: OneTenant, platform: Service, who: Caller) -> None:
    """Forget a tenant that has no jobs, or a group without members."""
    platform.tenants.remove(tenant, who)
