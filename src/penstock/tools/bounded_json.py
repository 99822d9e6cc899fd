"""JSON that a user, a job or an engine wrote: bounded in size and depth, and every way to be wrong is a ValueError."""

import json
from typing import Any

DEEPEST = 100
_TOO_DEEP = f"JSON of more than {DEEPEST} levels"


def parse_json(text: str | bytes, most: int, **options: Any) -> Any:
    """Return what a text of at most ``most`` characters says; ``options`` are those of :func:`json.loads`."""
    if len(text) > most:
        raise ValueError(f"{len(text)} characters of JSON, at most {most} are read")
    try:
        found = json.loads(text, **options)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    level = [found] if _is_outer(found) else []
    for _ in range(DEEPEST):
        level = [each for one in level for each in (one.values() if isinstance(one, dict) else one) if _is_outer(each)]
    if level:
        raise ValueError(_TOO_DEEP)
    return found


def _is_outer(value: object) -> bool:
    return isinstance(value, dict | list)
