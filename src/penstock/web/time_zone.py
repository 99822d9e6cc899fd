"""The time zone of whoever looks at a page. The browser names it in a cookie, and moments are written in it.

Outside of a page, and for a browser that names none, moments are written in UTC.
"""

from datetime import UTC, tzinfo
from functools import lru_cache
from urllib.parse import unquote
from zoneinfo import ZoneInfo

from nicegui.slot import Slot, get_task_id

ZONE_COOKIE = "penstock_zone"


def viewer_zone() -> tzinfo:
    """The zone of the page that is being drawn."""
    stack = Slot.stacks.get(get_task_id())
    request = stack[-1].parent.client.request if stack else None
    return UTC if request is None else zone_named(unquote(request.cookies.get(ZONE_COOKIE, "")))


@lru_cache(maxsize=512)
def zone_named(name: str) -> tzinfo:
    """A zone by the name that browsers give it; UTC for a name nobody knows."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        return UTC


def zone_label(zone: tzinfo) -> str:
    """How people call a zone: its city, or UTC."""
    return zone.key.replace("_", " ") if isinstance(zone, ZoneInfo) else "UTC"
