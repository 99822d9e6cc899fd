"""The parts in docs/extend.md are not only text: each runs by its name, from one file, with nothing registered."""

import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.core import Worker, load_plugin
from penstock.placement.testing import PlacementConformance
from tests.backends.watching import make_launch, output, wait_for_end
from tests.tools.commandline import penstock

GUIDES = Path(__file__).parents[2] / "docs"


def documented() -> dict[str, str]:
    """Every file that the guides show, by its name."""
    texts = [(GUIDES / guide).read_text(encoding="utf-8") for guide in ("extend.md", "add-a-policy.md")]
    return {
        name: code
        for text in texts
        for name, code in re.findall(r"`(\w+\.py)`[^\n]*:\n\n```python\n(.*?)```", text, re.DOTALL)
    }


def names_of(file: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": file.removesuffix(".py")}
    exec(documented()[file], names)
    return names


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with every documented file in it."""
    for name, code in documented().items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestTheDocumentedPlacement(PlacementConformance):
    strategy = names_of("last_fit.py")["LastFit"]()


def run(*arguments: str) -> str:
    found = penstock(*arguments, cwd=Path.cwd())
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.fixture
def trace(here: Path) -> str:
    run("trace", "generate", "--jobs", "12", "--cluster", "2x4", "--seed", "3", "--out", "day.csv")
    return "day.csv"


def test_a_policy_and_a_placement_are_simulated_by_their_names(trace: str) -> None:
    out = run("simulate", trace, "--cluster", "2x4", "--policy", "smallest_first:SmallestFirst,fifo",
              "--placement", "last_fit:LastFit", "--json")  # fmt: skip
    assert '"smallest-first"' in out


def test_an_export_is_written_by_its_name(here: Path) -> None:
    arguments = ("gpt-1.3b", "--cluster", "1x8xA100-80GB", "--batch", "64", "--seconds", "1", "--uniform")
    out = run("plan", *arguments, "--export", "summary_export:summary")
    assert "copies train side by side" in out


def test_a_backend_is_loaded_by_its_name_and_runs_jobs(here: Path) -> None:
    backend = load_plugin("backend", "nice_backend:nice")(here / "data")
    command = (sys.executable, "-c", "import os; print('niceness', os.nice(0))")
    worker = Worker(id="w0", rank=0, node=backend.nodes()[0].name, slot=0)
    launch = replace(make_launch(command), workers=(worker,))
    backend.launch(launch)
    wait_for_end(backend, launch.run_id)
    assert f"niceness {min(os.nice(0) + 10, 19)}" in output(backend, launch.run_id)
