"""Python environments for jobs: built once for each set of requirements, then only looked up.

An environment is a virtual environment named after the hash of what goes into it. It is built beside its final place
under a lock and renamed when it is complete, so a crash leaves nothing half-built and two jobs that need the same one
build it once. What the platform's own interpreter has installed stays visible underneath: training scripts find torch
and penstock without installing them again, and their own requirements come first.
"""

import fcntl
import hashlib
import importlib.util
import logging
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.backends.base import PreparationError
from penstock.core import InputError, PenstockError

_log = logging.getLogger(__name__)

_SHOWN_LINES = 12
_INCLUDES = re.compile(r"\s*(?:-r|-c|--requirement|--constraint)[\s=]+(\S+)")
_EDITABLE = re.compile(r"\s*(?:-e|--editable)[\s=]+")
_BUILT = re.compile(r"(^|/)(build|[^/]*\.egg-info)/")
"""What building a package leaves beside its sources."""
_SOURCES = frozenset({".py", ".toml", ".cfg", ".txt", ".c", ".cpp", ".cu", ".pyx"})


@dataclass(frozen=True, slots=True)
class PythonEnvironment:
    """An interpreter to run a job with. ``prefix`` is the virtual environment's directory, None for our own."""

    python: str
    prefix: Path | None = None

    def variables(self, base: Mapping[str, str]) -> dict[str, str]:
        """What a process needs so that ``python`` and installed commands are the environment's."""
        found = str(Path(self.python).parent)
        path = os.pathsep.join(part for part in (found, base.get("PATH", os.defpath)) if part)
        return {"PATH": path, **({"VIRTUAL_ENV": str(self.prefix)} if self.prefix else {})}


class EnvironmentBuilder:
    """Builds environments in ``cache_dir`` and finds them again.

    With ``inherit`` (the default) packages of the running interpreter are visible in the environments it builds.
    """

    def __init__(self, cache_dir: Path, *, inherit: bool = True) -> None:
        self.cache_dir = cache_dir.absolute()
        self.inherit = inherit

    def build(self, requirements: str | Sequence[str] | None, *, base: Path | None = None) -> PythonEnvironment:
        """The environment for a requirements file or a list; our own interpreter if there is nothing to install.

        Relative paths in the list start at ``base``, in a file at the file. Takes as long as pip does the first time
        (a second or more), milliseconds after that. Safe from several threads and processes at once.
        """
        wanted = _Wanted.of(requirements, base or Path.cwd())
        if wanted is None:
            return PythonEnvironment(sys.executable)
        place = self.cache_dir / self._key(wanted)
        if not place.is_dir():
            with self._lock(place):
                if not place.is_dir():
                    self._build(place, wanted)
        return PythonEnvironment(str(place / "bin" / "python"), place)

    def _key(self, wanted: "_Wanted") -> str:
        parts = (sys.version, sys.base_prefix, sys.prefix if self.inherit else "", *wanted.content)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]

    @contextmanager
    def _lock(self, place: Path) -> Iterator[None]:
        try:
            self.cache_dir.mkdir(parents=True, exist_ok=True)
            lock = open(place.with_suffix(".lock"), "w")  # noqa: SIM115
        except OSError as problem:
            raise InputError(
                f"environments cannot be kept in {self.cache_dir}: {problem.strerror}", "a writable directory"
            ) from None
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _build(self, place: Path, wanted: "_Wanted") -> None:
        for leftover in self.cache_dir.glob(f"{place.name}.building-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        building = self.cache_dir / f"{place.name}.building-{os.getpid()}"
        _log.info("building the environment %s for %s", place.name, ", ".join(wanted.arguments))
        try:
            _create(building, self.inherit)
            _install(building, wanted)
            _move_scripts(building, place)
            building.rename(place)
        finally:
            shutil.rmtree(building, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What pip is asked for, from which directory, and every text and file that decides what comes of it."""

    arguments: tuple[str, ...]
    directory: Path
    content: tuple[str, ...]

    @classmethod
    def of(cls, requirements: str | Sequence[str] | None, base: Path) -> "_Wanted | None":
        if isinstance(requirements, str):
            file = (base / requirements).absolute()
            wanted = cls(("--requirement", str(file)), file.parent, tuple(_lines_of(file, set())))
        else:
            lines = tuple(line.strip() for line in requirements or () if line.strip())
            arguments = tuple(word for line in lines for word in _argument(line))
            wanted = cls(arguments, base.absolute(), tuple(_with_sources(lines, base)))
        return wanted if wanted.content else None


def _argument(line: str) -> tuple[str, ...]:
    editable = _EDITABLE.match(line)
    return ("--editable", line[editable.end() :].strip()) if editable else (line,)


def _lines_of(file: Path, seen: set[Path]) -> Iterator[str]:
    """The lines of a requirements file and of those it includes, without comments, in order."""
    if file in seen:
        return
    seen.add(file)
    try:
        lines = [re.sub(r"(^|\s)#.*", "", line).strip() for line in file.read_text().splitlines()]
    except (OSError, ValueError) as problem:
        raise InputError(f"{file} cannot be read: {problem}", "a requirements file", "Check the path") from None
    for line in filter(None, lines):
        if included := _INCLUDES.match(line):
            yield from _lines_of(file.parent / included[1], seen)
        else:
            yield from _with_sources((line,), file.parent)


def _with_sources(lines: Sequence[str], base: Path) -> Iterator[str]:
    """Each line, and the content of what it points to if that is here: a changed package is another environment."""
    for line in lines:
        yield line
        path = base / _EDITABLE.sub("", line).split("[")[0].strip()
        if path.is_file():
            yield _hash(path)
        elif path.is_dir():
            found = (inner for inner in sorted(path.rglob("*")) if inner.suffix in _SOURCES and inner.is_file())
            sources = (inner for inner in found if not _BUILT.search(str(inner.relative_to(path))))
            yield from (f"{inner.relative_to(path)} {_hash(inner)}" for inner in sources)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _have_pip() -> bool:
    """Whether our own pip can install into other environments, which saves each of them a copy."""
    return importlib.util.find_spec("pip") is not None


def _create(prefix: Path, inherit: bool) -> None:
    options = ["--without-pip"] if _have_pip() else []
    _run([sys.executable, "-m", "venv", *options, str(prefix)], Path.cwd(), "the environment could not be created")
    if inherit:
        below = sysconfig.get_paths()["purelib"]
        inside = prefix / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
        (inside / "penstock-inherited.pth").write_text(f"import site; site.addsitedir({below!r})\n")


def _install(prefix: Path, wanted: _Wanted) -> None:
    python = str(prefix / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python] if _have_pip() else [python, "-m", "pip"]
    options = ["--no-input", "--disable-pip-version-check", "--no-warn-script-location"]
    _run([*pip, "install", *options, *wanted.arguments], wanted.directory, "the requirements could not be installed")


def _run(command: Sequence[str], directory: Path, failure: str) -> None:
    env = {**os.environ, "PIP_USER": "0", "PYTHONNOUSERSITE": "1"}
    done = subprocess.run(
        command,
        check=False,
        cwd=directory,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode != 0:
        lines = [line for line in done.stdout.decode(errors="replace").splitlines() if line.strip()]
        tail = tuple(lines[-_SHOWN_LINES:])
        told = "\n  ".join(tail)
        hint = "Correct environment.requirements"
        raise PreparationError(f"{failure}; the last lines were:\n  {told}\n", "", hint, tail=tail)


def _move_scripts(building: Path, place: Path) -> None:
    """Installed commands name their interpreter by its full path; let them name where it is going to be."""
    if len(str(building)) < len(str(place)):
        raise PenstockError("the final path of an environment must not be longer than the one it is built in")
    for script in (building / "bin").iterdir():
        if script.is_symlink() or not script.is_file():
            continue
        content = script.read_bytes()
        if os.fsencode(building) in content:
            script.write_bytes(content.replace(os.fsencode(building), os.fsencode(place)))
