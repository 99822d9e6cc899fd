"""Parts of your own, named ``module:attribute``."""

from pathlib import Path

import pytest

from penstock.core import PluginError, is_plugin, load_plugin
from penstock.placement import placement_named
from penstock.policies import policy_named


@pytest.mark.parametrize(
    "name", ["mine:Policy", "a.b:C", "mine.py:Policy", "some/where/my-part.py:Policy", "../mine.py:P"]
)
def test_a_module_and_an_attribute_are_a_plugin(name: str) -> None:
    assert is_plugin(name)


@pytest.mark.parametrize(
    "name", ["deadline", "edf-admission", "mine:", ":Policy", "no-module:X", "a:b:c", "a b:c", ".py:X", "mine.py:"]
)
def test_other_names_are_not(name: str) -> None:
    assert not is_plugin(name)


def test_the_current_directory_is_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "part_lying_here.py").write_text("THING = 7\n")
    monkeypatch.chdir(tmp_path)
    assert load_plugin("thing", "part_lying_here:THING") == 7


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "has no attribute 'Mine'"),
        ("1 / 0", "ZeroDivisionError"),
        ("import nothing_of_that_name", "No module named"),
    ],
)
def test_what_is_in_the_way_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, said: str) -> None:
    module = f"broken_part_{abs(hash(content))}"
    (tmp_path / f"{module}.py").write_text(content)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PluginError, match=said):
        load_plugin("policy", f"{module}:Mine")


def test_a_part_that_is_something_else_is_refused() -> None:
    with pytest.raises(PluginError, match=r"derived from penstock\.policies\.Policy"):
        policy_named("pathlib:Path")
    with pytest.raises(PluginError, match="no method place"):
        placement_named("pathlib:Path")


def test_a_file_is_loaded_wherever_it_lies(tmp_path: Path) -> None:
    (tmp_path / "beside_it.py").write_text("HALF = 4\n")
    file = tmp_path / "with-a-dash.py"
    file.write_text("from beside_it import HALF\nTHING = 2 * HALF\n")
    assert load_plugin("thing", f"{file}:THING") == 8
    file.write_text("THING = 9\n")
    assert load_plugin("thing", f"{file}:THING") == 9


@pytest.mark.parametrize(("content", "said"), [("1 / 0", "ZeroDivisionError"), ("", "has no attribute 'Mine'")])
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "mine.py").write_text(content)
    with pytest.raises(PluginError, match=said):
        load_plugin("policy", f"{tmp_path}/mine.py:Mine")
    with pytest.raises(PluginError, match="No such file"):
        load_plugin("policy", f"{tmp_path}/other.py:Mine")
