"""The package's metadata name the versions of Python that are tested."""

import re
import tomllib
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def test_the_versions_of_the_metadata_are_those_that_are_tested() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    script = (_ROOT / "tests/tools/test-pythons").read_text(encoding="utf-8")
    (tested,) = re.findall(r"\$\{VERSIONS:-([0-9. ]+)\}", script)
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert named == tested.split()
    assert project["requires-python"] == f">={named[0]}"
