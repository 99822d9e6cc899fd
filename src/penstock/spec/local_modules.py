"""Which files a Python script brings along: modules of its own that it imports, found without running anything.

Import statements are looked for line by line, which is enough to notice that a module beside the script has changed and
never fails on what somebody has written. Installed packages are not followed: they are the environment's.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from penstock.tools import read_regular

MOST_FILES = 200
LARGEST_BYTES = 4 << 20
LONGEST_STATEMENT = 4096
MOST_NAMES = 5_000
"""Imported names that are looked for, of one script and of each module: each costs a few questions to the disk."""
_STATEMENT = re.compile(rb"^[ \t]*(?:from[ \t]+(?P<source>[.\w]+)[ \t]+import[ \t]+|import[ \t]+)", re.MULTILINE)
_END = re.compile(rb"[\n#;]")
_NAME = re.compile(r"\w+")
_ELASTIC = "penstock.elastic"


def local_modules(script: Path, working_dir: Path) -> tuple[Path, ...]:
    """Modules below the script's folder or the working directory that it imports, also through others, in order."""
    roots = tuple(dict.fromkeys((script.parent, working_dir)))
    found: dict[Path, None] = {}
    waiting = [script]
    while waiting and len(found) < MOST_FILES:
        file = waiting.pop()
        for module in _imported(file, roots):
            if module not in found and module != script:
                found[module] = None
                waiting.append(module)
    return tuple(sorted(found))


def imports_elastic(script: Path) -> bool:
    """Whether a script uses our library, by which it can go on when its devices change."""
    for source, names in _imports(script):
        modules = [f"{source}.{name}" for name in names] if source else names
        if any(f"{module}.".startswith(f"{_ELASTIC}.") for module in modules):
            return True
    return False


def _imported(file: Path, roots: tuple[Path, ...]) -> Iterator[Path]:
    for source, names in _imports(file):
        if not source:
            for module in names:
                yield from _files(module, (), roots)
        elif source.startswith("."):
            up = len(source) - len(source.lstrip(".")) - 1
            folder = file.parents[up] if up < len(file.parents) else file.parent
            yield from _files(source.lstrip("."), names, (folder,))
        else:
            yield from _files(source, names, roots)


def _imports(file: Path) -> Iterator[tuple[str, list[str]]]:
    """Where names are imported from, and the names; of plain imports nowhere, and the modules. O(bytes)."""
    text, at, left = _text(file), 0, MOST_NAMES
    while left > 0 and (found := _STATEMENT.search(text, at)):
        at = found.end()
        longest = at + LONGEST_STATEMENT
        if text.startswith(b"(", at):
            end = text.find(b")", at, longest)
        else:
            last = _END.search(text, at, longest)
            end = last.start() if last else -1 if longest < len(text) else len(text)
        if end < 0:
            continue
        said, source = _decoded(text[at:end]), _decoded(found["source"])
        names = _NAME.findall(said) if source else [each.split(" as ")[0].strip() for each in said.split(",")]
        yield source, names[:left]
        at, left = end, left - len(names)


def _files(module: str, names: tuple[str, ...] | list[str], roots: tuple[Path, ...]) -> Iterator[Path]:
    """The files of ``a``, ``a.b`` and ``a.b.name`` below the roots, where there are such files."""
    parts = [part for part in module.split(".") if part]
    paths = [parts[:length] for length in range(1, len(parts) + 1)] + [[*parts, name] for name in names]
    for path in paths:
        for root in roots:
            place = root.joinpath(*path)
            yield from (file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file())


def _text(file: Path) -> bytes:
    try:
        text = read_regular(file, LARGEST_BYTES + 1, follow=True)
    except OSError:
        return b""
    return text if len(text) <= LARGEST_BYTES else b""


def _decoded(found: bytes | None) -> str:
    return (found or b"").decode(errors="replace")
