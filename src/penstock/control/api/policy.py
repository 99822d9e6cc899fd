"""The policy in force, and switching it."""

from fastapi import APIRouter

from penstock.control.api.dependencies import Caller, Service
from penstock.wire import PolicyRequest, PolicyView

router = APIRouter(prefix="/v1", tags=["platform"])


@router.get("/policy")
def policy(platform: Service, who: Caller) -> PolicyView:
    """The policy in force, with its parameters."""
    return platform.policy.view(who)


@router.put("/policy")
def switch_policy(wanted: PolicyRequest, platform: Service, who: Caller) -> PolicyView:
    """Another policy from now on, without losing a job; 409 names the promises that it would endanger."""
    return platform.policy.switch(wanted, who)
