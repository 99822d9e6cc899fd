"""A module or a name that the documentation mentions is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "penstock"
ROOMS = "|".join(sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()))
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
_FILES = re.compile(rf"`(?:penstock/)?((?:{ROOMS})/[\w/]+\.(?:py|js))`")
_NAMES = re.compile(rf"\bpenstock\.((?:{ROOMS})(?:\.\w+)+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_mentioned_exist(page: Path) -> None:
    mentioned = set(_FILES.findall(page.read_text()))
    assert [name for name in sorted(mentioned) if not (PACKAGE / name).exists() and not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_and_names_that_are_mentioned_exist(page: Path) -> None:
    mentioned = set(_NAMES.findall(page.read_text()))
    assert [name for name in sorted(mentioned) if not _exists(name.split("."))] == []


def test_the_architecture_mentions_every_room() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    assert [room for room in ROOMS.split("|") if f"| `{room}` |" not in text] == []


def test_something_is_checked() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    assert len(set(_FILES.findall(text))) > 40


def _exists(parts: list[str]) -> bool:
    """Whether a dotted name leads to a module, or to a name that its source spells."""
    path = PACKAGE
    for position, part in enumerate(parts):
        if (path / part).is_dir():
            path = path / part
        elif (path / f"{part}.py").exists():
            return _spells(path / f"{part}.py", parts[position + 1 :])
        else:
            return _spells(path / "__init__.py", parts[position:])
    return True


def _spells(module: Path, names: list[str]) -> bool:
    return not names or re.search(rf"\b{names[0]}\b", module.read_text()) is not None
