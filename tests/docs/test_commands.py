"""Every command in a code block of the documentation is one that the command line takes."""

from pathlib import Path

import pytest

from tests.docs.command_words import PAGES, commands_in, job_of, parameters

FOUND = [(page, command) for page in PAGES for command in commands_in(page)]


def test_commands_are_found() -> None:
    assert len(FOUND) > 60
    assert any(page.name == "README.md" and " example gpt" in command for page, command in FOUND)


@pytest.mark.parametrize(("page", "command"), FOUND, ids=[f"{page.name}: {command}" for page, command in FOUND])
def test_a_documented_command_is_taken(page: Path, command: str) -> None:
    parameters(command)


def test_a_command_that_is_not_taken_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="No such option"):
        parameters("penstock run --no-such-option -- train.py")
    with pytest.raises(Exception, match="No such command"):
        parameters("penstock rum")
    (tmp_path / "train.py").touch()
    assert job_of(f"penstock run --work '3 steps' -- {tmp_path / 'train.py'} --lr 1").script.endswith("train.py")
