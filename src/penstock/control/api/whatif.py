"""The past under other rules."""

from fastapi import APIRouter

from penstock.control.api.dependencies import Caller, Service
from penstock.wire import WhatIfReport, WhatIfRequest

router = APIRouter(prefix="/v1", tags=["reports"])


@router.post("/what-if")
def what_if(wanted: WhatIfRequest, platform: Service, who: Caller) -> WhatIfReport:
    """Replay this server's own past as it ran, and, where that comes out as it was, under other rules.

    It runs in a process of its own, one at a time, and is ended after some minutes; nothing that runs is touched.
    """
    return platform.what_if(wanted, who)
