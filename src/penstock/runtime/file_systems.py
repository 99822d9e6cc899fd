"""What reaches a URL: fsspec, or one sentence about what is missing for it."""

from typing import Any

from penstock.core import InputError, require


def file_system(url: str, what: str, hint: str) -> Any:
    """The file system of a URL where ``what`` lies; ``hint`` says what to change where there is none."""
    fsspec = require("fsspec", extra="runtime", why=f"{what} at {url}")
    try:
        return fsspec.filesystem(url.partition("://")[0])
    except ImportError as missing:
        raise InputError(
            f"{what} at {url}, which this Python cannot reach: {missing}", "a URL whose package is installed",
            "Add it to the job's requirements; s3:// comes with penstock[s3]",
        ) from None  # fmt: skip
    except ValueError:
        raise InputError(
            f"{what} at {url}", "a path, or a URL of a kind that fsspec knows, such as s3://", hint
        ) from None
