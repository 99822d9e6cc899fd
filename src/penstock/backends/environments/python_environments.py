"""Python environments for jobs: built once for each set of requirements, then only looked up.

An environment is a virtual environment named after the hash of what goes into it. It is built beside its final place
under a lock and renamed when it is complete, so a crash leaves nothing half-built and two jobs that need the same one
build it once. What the platform's own interpreter has installed stays visible underneath: training scripts find torch
and penstock without installing them again, and their own requirements come first.
"""

import fcntl
import hashlib
import logging
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.backends.environments.package_installer import Packages, have_pip, install
from penstock.backends.environments.setup_script import SetupScript, key_of
from penstock.backends.environments.tool_runs import run_tool
from penstock.core import InputError, PenstockError

_log = logging.getLogger(__name__)

_SET_UP = "penstock-set-up"
"""Of an environment in which its setup script has ended well."""
_INCLUDES = re.compile(r"\s*(?:-r|-c|--requirement|--constraint)[\s=]+(\S+)")
_EDITABLE = re.compile(r"\s*(?:-e|--editable)[\s=]+")
_BUILT = re.compile(r"(^|/)(build|[^/]*\.egg-info)/")
"""What building a package leaves beside its sources."""
_SOURCES = frozenset({".py", ".toml", ".cfg", ".txt", ".c", ".cpp", ".cu", ".pyx"})


@dataclass(frozen=True, slots=True)
class PythonEnvironment:
    """An interpreter to run a job with. ``prefix`` is the environment's directory, None for our own.

    ``activation`` is what a conda environment sets when it is activated; a virtual environment needs only a path.
    """

    python: str
    prefix: Path | None = None
    activation: tuple[tuple[str, str], ...] = ()

    def variables(self, base: Mapping[str, str]) -> dict[str, str]:
        """What a process needs so that ``python`` and installed commands are the environment's."""
        if self.activation or self.prefix is None:
            return dict(self.activation)
        found = str(Path(self.python).parent)
        path = os.pathsep.join(part for part in (found, base.get("PATH", os.defpath)) if part)
        return {"PATH": path, "VIRTUAL_ENV": str(self.prefix)}


class EnvironmentBuilder:
    """Builds environments in ``cache_dir`` and finds them again.

    With ``inherit`` (the default) packages of the running interpreter are visible in the environments it builds.
    """

    def __init__(self, cache_dir: Path, *, inherit: bool = True) -> None:
        self.cache_dir = cache_dir.absolute()
        self.inherit = inherit

    def build(
        self, requirements: str | Sequence[str] | None, *, base: Path | None = None, setup: SetupScript | None = None
    ) -> PythonEnvironment:
        """The environment for a requirements file or a list, and for a setup script that is run in it once.

        Our own interpreter if there is nothing to install or to run. Relative paths in the list start at ``base``, in a
        file at the file. Takes as long as pip does the first time (a second or more), milliseconds after that. Safe
        from several threads and processes at once.
        """
        wanted = wanted_packages(requirements, base or Path.cwd())
        if not wanted.content and setup is None:
            return PythonEnvironment(sys.executable)
        place = self.cache_dir / self._key(wanted, setup)
        if not _is_ready(place, setup):
            with self._lock(place):
                if not _is_ready(place, setup):
                    self._build(place, wanted, setup)
        return PythonEnvironment(str(place / "bin" / "python"), place)

    def _key(self, wanted: Packages, setup: SetupScript | None) -> str:
        parts = (sys.version, sys.base_prefix, sys.prefix if self.inherit else "", *wanted.content)
        return key_of(parts + (setup.content if setup else ()))

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

    def _build(self, place: Path, wanted: Packages, setup: SetupScript | None) -> None:
        for leftover in self.cache_dir.glob(f"{place.name}.building-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        shutil.rmtree(place, ignore_errors=True)  # its setup was cut short
        building = self.cache_dir / f"{place.name}.building-{os.getpid()}"
        _log.info("building the environment %s for %s", place.name, ", ".join(wanted.arguments))
        try:
            _create(building, self.inherit)
            if wanted.content:
                install(building, wanted, inherit=self.inherit)
            _move_scripts(building, place)
            building.rename(place)
            if setup is not None:
                self._set_up(place, setup)
        finally:
            shutil.rmtree(building, ignore_errors=True)

    def _set_up(self, place: Path, setup: SetupScript) -> None:
        """In its final place, because whatever the script builds may remember where it was built."""
        environment = PythonEnvironment(str(place / "bin" / "python"), place)
        try:
            setup.run(environment.variables(os.environ))
            (place / _SET_UP).touch()
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise


def _is_ready(place: Path, setup: SetupScript | None) -> bool:
    return (place / _SET_UP).is_file() if setup else place.is_dir()


def wanted_packages(requirements: str | Sequence[str] | None, base: Path) -> Packages:
    """What a requirements file or a list asks for; nothing, if there is nothing in it."""
    if isinstance(requirements, str):
        file = (base / requirements).absolute()
        content = tuple(_lines_of(file, set()))
        return Packages(("--requirement", str(file)) if content else (), file.parent, content)
    lines = tuple(line.strip() for line in requirements or () if line.strip())
    arguments = tuple(word for line in lines for word in _argument(line))
    return Packages(arguments, base.absolute(), tuple(_with_sources(lines, base)))


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


def _create(prefix: Path, inherit: bool) -> None:
    options = ["--without-pip"] if have_pip() else []
    run_tool([sys.executable, "-m", "venv", *options, str(prefix)], Path.cwd(), "the environment could not be created")
    if inherit:
        below = sysconfig.get_paths()["purelib"]
        inside = prefix / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
        (inside / "penstock-inherited.pth").write_text(f"import site; site.addsitedir({below!r})\n")
        _add_pip(prefix)


def _add_pip(prefix: Path) -> None:
    """A ``pip`` of the environment's own, so that a setup script never finds the one that installs into ours."""
    for name in ("pip", "pip3"):
        command = prefix / "bin" / name
        command.write_text(f"#!{prefix}/bin/python\nimport runpy\n\nrunpy.run_module('pip', run_name='__main__')\n")
        command.chmod(0o755)


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
