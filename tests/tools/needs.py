"""What some tests need besides Python and its packages, and how to get it: the one place for the texts of skips.

Every skip says in one line what to do; ``tests/tools/run_hooks.py`` fails a test that is skipped without that.
"""

import importlib.util
import os
import shutil
import socket
from pathlib import Path
from typing import NoReturn

import pytest

Report = pytest.CollectReport | pytest.TestReport
REQUIRED = "PENSTOCK_REQUIRE_ENGINES"
HOW = "; to run it: "
ENGINES = "make engines (as root on Debian)"
KUBERNETES = "make engines-kubernetes"
ROOT = "make test as root"
ORDINARY_USER = "make test as an ordinary user"
TRACKERS = "the tracker is not installed; to run it: make test-trackers"
PACKAGES = "make .venv/.installed, which installs every extra"
EXTRAS = frozenset(
    {"joserfc", "kubernetes", "nicegui", "psycopg", "pyarrow", "scipy", "sklearn", "tokenizers", "torch"}
)
"""Modules that extras bring: a test module that cannot import one of them is skipped."""
with_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason=f"PyTorch is not installed{HOW}{PACKAGES}"
)
SOURCE = Path(__file__).parents[2] / "src"
PUBLIC_DATA = Path(__file__).parents[3] / "shared" / "data"


def reason(what: str, how: str) -> str:
    return what + HOW + how


def skip(what: str, how: str) -> NoReturn:
    """Skip a test, or a whole module, because ``what`` is so; ``how`` is what to do to run it."""
    pytest.skip(reason(what, how), allow_module_level=True)


def missing_engine(what: str, how: str = ENGINES) -> NoReturn:
    """Skip a test without the program it drives, or fail it where all programs are required."""
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(reason(what, how))
    skip(what, how)


def engine(*names: str, how: str = ENGINES) -> str:
    """Return the path of the first of these programs that is installed."""
    for name in names:
        if (found := shutil.which(name)) is not None:
            return found
    missing_engine(f"{' or '.join(names)} is not installed", how)


def names() -> None:
    """Skip a test where this machine does not know its own name, under which process groups meet, or localhost."""
    for name in ("localhost", socket.gethostname()):
        try:
            socket.getaddrinfo(name, None)
        except OSError:
            skip(f"the name {name} has no address", "echo 127.0.0.1 localhost $(hostname) >> /etc/hosts (as root)")


def public_data(name: str) -> Path:
    """Return a file or folder of the public data."""
    path = PUBLIC_DATA / name
    if not path.exists():
        skip("public data are missing", data_advice(name))
    return path


def data_advice(name: str) -> str:
    return f"put the public data beside the repository, as ../shared/data/{name}"


def explained(report: Report) -> Report:
    """Return the report of a test or module: one that is skipped without a word on how to run it has failed."""
    if report.failed and (missing := _missing_extra(report)):
        report.outcome, report.longrepr = "skipped", (str(report.nodeid), 1, f"Skipped: could not import '{missing}'")
    if not report.skipped or not isinstance(report.longrepr, tuple) or hasattr(report, "wasxfail"):
        return report
    path, line, text = report.longrepr
    if Path(path).is_relative_to(SOURCE):
        return report  # the conformance suite that ships with the package skips what a backend cannot do
    if text.startswith("Skipped: could not import"):
        report.longrepr = (path, line, reason(text, PACKAGES))
    elif HOW not in text:
        report.outcome = "failed"
        report.longrepr = f"{path}:{line} does not say how to run it, see tests/tools/needs.py: {text}"
    return report


def _missing_extra(report: Report) -> str:
    """Return the module of an extra that is not installed, if a test module could not be imported for lack of it."""
    call = getattr(report, "call", None)
    cause = call.excinfo.value.__cause__ if call is not None and call.excinfo is not None else None
    name = (cause.name or "").partition(".")[0] if isinstance(cause, ModuleNotFoundError) else ""
    return name if name in EXTRAS and importlib.util.find_spec(name) is None else ""
