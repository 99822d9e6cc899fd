"""What reaches a URL: fsspec, or one sentence about what is missing for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.core import InputError, install_command, require

_LIBRARIES = ("botocore", "aiobotocore")
"""Packages below fsspec whose own errors it lets through, missing credentials among them."""


def file_system(url: str, what: str, hint: str) -> Any:
    """The file system of a URL where ``what`` lies; ``hint`` says what to change where there is none."""
    fsspec = require("fsspec", extra="runtime", why=f"{what} at {url}")
    try:
        return fsspec.filesystem(url.partition("://")[0])
    except ImportError as missing:
        raise InputError(
            f"{what} at {url}, which this Python cannot reach: {missing}", "a URL whose package is installed",
            f"Add it to the job's requirements; s3:// comes with {install_command('s3')}",
        ) from None  # fmt: skip
    except ValueError:
        raise InputError(
            f"{what} at {url}", "a path, or a URL of a kind that fsspec knows, such as s3://", hint
        ) from None


@contextmanager
def understood(url: str) -> Iterator[None]:
    """Whatever a store's own library complains about is a refusal in one sentence; other errors stay what they are."""
    try:
        yield
    except Exception as problem:
        if type(problem).__module__.partition(".")[0] not in _LIBRARIES:
            raise
        raise InputError(
            f"{url} cannot be used: {problem}", "a store that this machine may read and write",
            "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; AWS_ENDPOINT_URL for a store of your own",
        ) from None  # fmt: skip
