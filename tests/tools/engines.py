"""Real programs that some tests drive. Without them such a test is skipped, or fails where they are required."""

import os
import shutil

import pytest

REQUIRED = "PENSTOCK_REQUIRE_ENGINES"
BROWSER_FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


def engine(*names: str) -> str:
    """The path of the first of these programs that is installed."""
    for name in names:
        if (found := shutil.which(name)) is not None:
            return found
    complaint = f"{' or '.join(names)} is not installed; tests/tools/install-engines installs it"
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(complaint)
    pytest.skip(complaint)
