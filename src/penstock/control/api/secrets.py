"""Routes about secrets of jobs. Values go in and never come out."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from penstock.control.api.dependencies import Caller, Service
from penstock.core import SECRET_NAME, TENANT_NAME
from penstock.wire import SecretRequest, SecretView

router = APIRouter(tags=["secrets"])

Name = Annotated[str, Path(max_length=128, pattern=f"^{SECRET_NAME}$")]
Tenant = Annotated[str | None, Query(max_length=63, pattern=f"^{TENANT_NAME}$")]


@router.get("/v1/secrets")
def secrets(platform: Service, who: Caller, tenant: Tenant = None) -> list[SecretView]:
    """The names of what is stored."""
    return platform.secrets.list(who, tenant)


@router.put("/v1/secrets/{name}")
def put_secret(name: Name, wanted: SecretRequest, platform: Service, who: Caller, tenant: Tenant = None) -> SecretView:
    """Store a secret, or another value of one."""
    return platform.secrets.put(name, wanted.value.get_secret_value(), who, tenant)


@router.delete("/v1/secrets/{name}", status_code=204)
def delete_secret(name: Name, platform: Service, who: Caller, tenant: Tenant = None) -> None:
    platform.secrets.delete(name, who, tenant)
