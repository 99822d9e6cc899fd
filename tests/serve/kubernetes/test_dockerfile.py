"""The image cannot be built here, but what its recipe names can be looked for: files, extras, users, the command."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from penstock.backends import KubernetesSettings
from penstock.serve.kubernetes.deployment import dockerfile
from penstock.serve.kubernetes.manifests import USER
from tests.tools import needs

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
INSTRUCTIONS = frozenset({"ARG", "FROM", "ENV", "COPY", "RUN", "USER", "ENTRYPOINT", "CMD"})


def instructions() -> list[tuple[str, str]]:
    lines = [line for line in dockerfile().splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def said(word: str) -> list[str]:
    return [rest for found, rest in instructions() if found == word]


@pytest.fixture(scope="module")
def copied() -> list[str]:
    return [source for rest in said("COPY") for source in rest.split()[:-1]]


def test_every_instruction_is_one_and_every_copied_file_is_there(copied: list[str]) -> None:
    assert {word for word, _ in instructions()} <= INSTRUCTIONS
    assert copied
    git = needs.engine("git")
    tracked = subprocess.run([git, "ls-files", "--", *copied], cwd=ROOT, capture_output=True, text=True, check=True)
    for source in copied:
        assert (ROOT / source).exists(), source
        assert any(line == source or line.startswith(f"{source}/") for line in tracked.stdout.splitlines()), source


def test_what_a_build_of_the_package_reads_is_copied_to_where_it_is_installed_from(copied: list[str]) -> None:
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    for needed in ("pyproject.toml", PROJECT["project"]["readme"], *packages):
        assert needed in copied or Path(needed).parts[0] in copied, needed
    places = {rest.split()[0]: rest.split()[-1] for rest in said("COPY")}
    assert places == {"pyproject.toml": "/src/", "src": "/src/src"}
    assert '"/src[${EXTRAS}]"' in " ".join(said("RUN"))


def test_extras_are_those_of_the_package() -> None:
    (extras,) = [rest.partition("=")[2] for rest in said("ARG") if rest.startswith("EXTRAS=")]
    assert set(extras.split(",")) <= PROJECT["project"]["optional-dependencies"].keys()


def test_users_are_those_that_pods_run_as() -> None:
    made = {int(number) for number in re.findall(r"--uid (\d+)", " ".join(said("RUN")))}
    assert made == {USER, KubernetesSettings().run_as_user}
    assert said("USER") == [str(USER)]


def test_shell_commands_are_of_the_shells_grammar_and_its_image_starts_a_server() -> None:
    for script in said("RUN"):
        checked = subprocess.run(["/bin/sh", "-n", "-c", script], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr
        assert shlex.split(script)
    program, *arguments = json.loads(said("CMD")[0])
    assert program in {point.name for point in entry_points(group="console_scripts")}
    help_text = subprocess.run(
        [sys.executable, "-m", "penstock.cli", arguments[0], "--help"], capture_output=True, text=True, check=True,
        env={"COLUMNS": "200", "PATH": "/usr/bin:/bin"},
    ).stdout  # fmt: skip
    assert all(option in help_text for option in arguments if option.startswith("--"))
