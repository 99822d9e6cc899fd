"""The parts in docs/extend.md are not only text: each runs by its name, from one file, with nothing registered."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app

GUIDES = Path(__file__).parents[2] / "docs"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with every documented file in it."""
    for guide in ("extend.md", "add-a-policy.md"):
        text = (GUIDES / guide).read_text(encoding="utf-8")
        for name, code in re.findall(r"`([\w/.]*?\w+\.py)`:\n\n```python\n(.*?)```", text, re.DOTALL):
            (tmp_path / Path(name).name).write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> str:
    found = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


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
