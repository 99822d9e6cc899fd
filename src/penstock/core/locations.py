"""Where files lie that outlive a run: a path of a machine, or a URL that every machine of a cluster reaches."""

import re
from pathlib import Path

_URL = re.compile(r"[a-z][a-z0-9+.-]+://\S+")


def is_url(location: str) -> bool:
    """Whether a location is one like ``s3://bucket/job``; anything else is a path."""
    return _URL.fullmatch(location) is not None


def located(location: str, base: Path) -> str:
    """A location seen from anywhere: relative paths are meant from ``base``, URLs stand for themselves."""
    return location if is_url(location) else str(base / location)
