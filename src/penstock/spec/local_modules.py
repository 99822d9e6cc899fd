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
_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+(?P<source>[.\w]+)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^\n#;]+)"
    rb"|import[ \t]+(?P<modules>[^\n#;]+))",
    re.MULTILINE,
)
_NAME = re.compile(r"\w+")
_ELASTIC = re.compile(
    rb"^[ \t]*(?:import[ \t]+penstock\.elastic\b|from[ \t]+penstock\.elastic[ \t]+import\b"
    rb"|from[ \t]+penstock[ \t]+import[ \t(]+[^\n#]*\belastic\b)",
    re.MULTILINE,
)


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
    return _ELASTIC.search(_text(script)) is not None


def _imported(file: Path, roots: tuple[Path, ...]) -> Iterator[Path]:
    for statement in _IMPORT.finditer(_text(file)):
        source, names, modules = (_decoded(statement[group]) for group in ("source", "names", "modules"))
        if modules:
            for module in modules.split(","):
                yield from _files(module.split(" as ")[0].strip(), (), roots)
        elif source.startswith("."):
            up = len(source) - len(source.lstrip(".")) - 1
            folder = file.parents[up] if up < len(file.parents) else file.parent
            yield from _files(source.lstrip("."), _NAME.findall(names), (folder,))
        else:
            yield from _files(source, _NAME.findall(names), roots)


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
