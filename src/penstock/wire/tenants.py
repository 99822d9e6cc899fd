"""Tenants as the API shows and takes them: what is theirs, what they hold of it, and how fairly they fared."""

from collections.abc import Iterator, Sequence

from pydantic import ConfigDict, Field

from penstock.wire.views import WireModel

_MOST_DEVICES = 10**9
_MOST_SHARE = 10**6


class TenantAccountView(WireModel):
    """A tenant, or a group with everything that its members have together."""

    name: str
    group: str = Field(default="", description="The group it belongs to; empty without one.")
    members: list[str] = Field(default=[], description="Of a group, who belongs to it.")
    share: float
    quota: int | None = Field(default=None, description="Devices that are its own.")
    limit: int | None = Field(default=None, description="The most devices it may hold at once.")
    lending: bool = True
    borrowing: bool = True
    priority: int = 0
    max_priority: int | None = None
    held: int = Field(description="Devices its jobs hold now.")
    wanted: int = Field(description="Devices its jobs could use now.")
    borrowed: int = Field(description="Devices it holds beyond its quota.")
    lent: int = Field(description="Devices of its quota that others hold now.")
    promisable: int = Field(
        default=0, description="Devices on which its jobs may be promised deadlines: no quota of others, within limits."
    )
    entitled: float = Field(description="Devices its share of the cluster comes to.")
    used_device_seconds: float = Field(description="Device-seconds that its jobs held in the last day.")
    deserved_device_seconds: float = Field(description="Device-seconds that it deserved in the last day.")
    fairness: float = Field(description="Used over deserved: below 1 is a loss, above 1 a benefit.")


def nested_tenants(tenants: Sequence[TenantAccountView]) -> Iterator[tuple[TenantAccountView, int]]:
    """Each with how many groups are around it, of tenants that come after their groups."""
    depth: dict[str, int] = {}
    for tenant in tenants:
        depth[tenant.name] = depth.get(tenant.group, -1) + 1
        yield tenant, depth[tenant.name]


class TenantRequest(WireModel):
    """What to change of a tenant: what is not given stays as it is, and null takes a quota, limit or group away."""

    model_config = ConfigDict(extra="forbid")
    share: float | None = Field(default=None, gt=0, le=_MOST_SHARE)
    quota: int | None = Field(default=None, ge=0, le=_MOST_DEVICES)
    limit: int | None = Field(default=None, ge=0, le=_MOST_DEVICES)
    group: str | None = Field(default=None, max_length=63)
    lending: bool | None = None
    borrowing: bool | None = None
    priority: int | None = Field(default=None, ge=-1000, le=1000)
    max_priority: int | None = Field(default=None, ge=-(2**31), le=2**31 - 1)
