"""What to do about a worker whose Python lacks PyTorch or Penstock: not installed, or closed to the user of the job."""

import os
import re
import sys
from collections.abc import Mapping, Sequence

from penstock.core import CPU_BUILD, install_command
from penstock.tools import UnixUser, closed_to

_ABSENT = re.compile(r"(?:ModuleNotFoundError|ImportError): No module named '(torch|penstock)[.']")
_NAMES = {"torch": "PyTorch", "penstock": "Penstock"}


def closed_packages(python: str, env: Mapping[str, str], user: UnixUser | None) -> str:
    """Return a sentence about package directories that the user of a job cannot read; empty if there are none."""
    if user is None:
        return ""
    places = env.get("PYTHONPATH", "").split(os.pathsep)
    closed = closed_to(user, [*places, *(sys.path if python == sys.executable else ())])
    if not closed:
        return ""
    return (
        f"jobs of this tenant run as the user {user.name}, who cannot read {', '.join(closed)}, where packages of "
        f"{python} lie: install Python, Penstock and PyTorch where every user can read them, for example below /opt"
    )


def absence_hint(tail: Sequence[str], python: str, env: Mapping[str, str], user: UnixUser | None) -> str:
    """Return what to do about the package that a worker's last line says is missing; empty for any other end."""
    found = _ABSENT.search(tail[-1]) if tail else None
    if found is None:
        return ""
    if closed := closed_packages(python, env, user):
        return closed
    package = found[1]
    pip = f"{python} -m pip"
    ours = package == "torch" and python == sys.executable
    command = install_command("runtime", pip) if ours else f"{pip} install {package}"
    hint = f" ({CPU_BUILD})" if package == "torch" else ""
    return f"{_NAMES[package]} is not installed for {python}: {command}{hint}"
