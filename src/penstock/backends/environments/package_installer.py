"""Packages into a virtual environment: by uv where it is installed and sees the same as pip would, else by pip.

An environment shows what the platform's own interpreter has installed, which pip takes into account and uv does not: it
would install torch a second time. So uv is asked first what would be installed, with the versions that are there as its
preference. If it would install another version of anything that is there, pip does it, which keeps what fits. Else uv
installs the rest, in a fraction of pip's time.
"""

import importlib.util
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from penstock.backends.environments.tool_runs import heard, run_tool

_PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==(\S+)")
_PIP_OPTIONS = ("--no-input", "--disable-pip-version-check", "--no-warn-script-location")
_AS_UV_CALLS_THEM = {
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX", "PIP_EXTRA_INDEX_URL": "UV_INDEX", "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_NO_INDEX": "UV_NO_INDEX", "PIP_CERT": "SSL_CERT_FILE",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Packages:
    """What pip is asked for, from which directory, and every text and file that decides what comes of it."""

    arguments: tuple[str, ...]
    directory: Path
    content: tuple[str, ...]


def have_pip() -> bool:
    """Whether our own pip can install into other environments, which saves each of them a copy."""
    return importlib.util.find_spec("pip") is not None


def find_uv() -> str | None:
    return shutil.which("uv", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))))


def install(prefix: Path, wanted: Packages, *, inherit: bool) -> None:
    """Install into the virtual environment at ``prefix``, where our own packages show if inherited."""
    python = str(prefix / "bin" / "python")
    uv = find_uv()
    if uv is None or not _by_uv(uv, python, wanted, _versions() if inherit else {}):
        _by_pip(python, wanted)


def _by_pip(python: str, wanted: Packages) -> None:
    pip = [sys.executable, "-m", "pip", "--python", python] if have_pip() else [python, "-m", "pip"]
    command = [*pip, "install", *_PIP_OPTIONS, *wanted.arguments]
    run_tool(command, wanted.directory, "the requirements could not be installed")


def _by_uv(uv: str, python: str, wanted: Packages, there: Mapping[str, str]) -> bool:
    """Whether uv has done it; whatever keeps it from that is for pip to do or to complain about."""
    with tempfile.TemporaryDirectory() as folder:
        asked, found = Path(folder, "asked.txt"), Path(folder, "found.txt")
        asked.write_text("\n".join(_lines(wanted.arguments)) + "\n")
        found.write_text("".join(f"{name}=={version}\n" for name, version in there.items()))
        resolve = (uv, "pip", "compile", "--quiet", "--python", python, "--no-annotate", "--no-header")
        if heard([*resolve, "--output-file", str(found), str(asked)], wanted.directory, _variables())[0] != 0:
            return False
        rest = _not_there(found.read_text().splitlines(), there)
        if rest is None:
            return False
        found.write_text("\n".join(rest) + "\n")
        installing = (uv, "pip", "install", "--python", python, "--no-deps", "--requirement", str(found))
        return not rest or heard(installing, wanted.directory, _variables())[0] == 0


def _lines(arguments: Sequence[str]) -> Iterable[str]:
    """Arguments of pip as the lines of a requirements file."""
    words = iter(arguments)
    for word in words:
        yield f"{word} {next(words)}" if word in ("--requirement", "--editable") else word


def _not_there(lines: Sequence[str], there: Mapping[str, str]) -> list[str] | None:
    """What is still to be installed; None if anything of that is there in another version."""
    rest = []
    for line in filter(str.strip, lines):
        pinned = _PINNED.match(line)
        name = _normal(pinned[1]) if pinned else ""
        if name not in there:
            rest.append(line)
        elif pinned is not None and there[name] != pinned[2]:
            return None
    return rest


def _versions() -> dict[str, str]:
    """What our own interpreter has installed, by name."""
    return {
        _normal(one.metadata["Name"]): one.version for one in metadata.distributions() if one.metadata["Name"]
    }  # fmt: skip


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _variables() -> dict[str, str]:
    """The settings that people have for pip, by the names that uv has for them."""
    return {ours: os.environ[name] for name, ours in _AS_UV_CALLS_THEM.items() if os.environ.get(name)}
