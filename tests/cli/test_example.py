"""``penstock example``: training scripts for a directory without a checkout, and commands that can be pasted."""

import importlib.util
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from examples.demo import try_it

from penstock.cli.submission.example import EXAMPLES
from penstock.cli.terminal import this_command
from penstock.core import install_command
from tests.cli.conftest import Penstock
from tests.docs.command_words import job_of

NAMES = ("cnn", "gpt", "plain_torchrun")


def test_examples_are_listed_with_what_they_are(penstock: Penstock) -> None:
    done = penstock("example")
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines() if line.startswith(NAMES)] == list(NAMES)
    assert "A small GPT" in done.out


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_written_and_its_command_can_be_pasted(penstock: Penstock, tmp_path: Path, name: str) -> None:
    done = penstock("example", name)
    written, _, needs = done.err.partition("\n")
    assert (done.code, written) == (0, f"{name}.py written; run it:")
    assert ("[runtime]'" in needs) == (importlib.util.find_spec("torch") is None)
    assert (tmp_path / f"{name}.py").read_bytes() == (EXAMPLES / f"{name}.py").read_bytes()
    assert job_of(done.out).script == str(tmp_path / f"{name}.py")


def test_a_file_that_exists_is_kept_unless_it_is_forced(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "gpt.py").write_text("mine")
    refused = penstock("example", "gpt")
    assert (refused.code, (tmp_path / "gpt.py").read_text()) == (2, "mine")
    assert refused.err.startswith("penstock: gpt.py exists. Allowed: a file that does not.")
    assert penstock("example", "gpt", "--force").code == 0
    assert "GPT" in (tmp_path / "gpt.py").read_text()


def test_an_example_goes_where_it_is_told(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "my jobs").mkdir()
    assert job_of(penstock("example", "gpt", "--out", "my jobs").out).script == str(tmp_path / "my jobs" / "gpt.py")
    assert job_of(penstock("example", "gpt", "--out", "train.py").out).script == str(tmp_path / "train.py")
    assert (tmp_path / "train.py").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("gtp",), "unknown example 'gtp'. Allowed: cnn, gpt, plain_torchrun. Did you mean 'gpt'?"),
        (("../cli/verbs",), "unknown example '../cli/verbs'. Allowed: cnn, gpt, plain_torchrun"),
        (("gpt", "--out", "train.txt"), "--out train.txt. Allowed: a file that ends with .py"),
        (("gpt", "--out", "absent/train.py"), "absent/train.py cannot be written: No such file or directory."),
        (("--force",), "--out or --force without an example. Allowed: cnn, gpt, plain_torchrun."),
    ],
)
def test_bad_input_is_one_message(penstock: Penstock, words: tuple[str, ...], complaint: str) -> None:
    done = penstock("example", *words)
    assert (done.code, done.out, complaint in done.err) == (2, "", True), done.err


def test_a_missing_pytorch_is_named_with_its_extra(penstock: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else find(name))
    done = penstock("example", "gpt")
    assert done.code == 0
    assert install_command("runtime", "pip").partition(" ")[2] in done.err
    assert "CPU index" in done.err


def test_a_command_is_named_as_this_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("python", "penstock"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(this_command.sys, "executable", str(tmp_path / "bin" / "python"))
    assert this_command.as_typed("penstock run -- x.py") == "bin/penstock run -- x.py"
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert this_command.as_typed("penstock run -- x.py") == "penstock run -- x.py"
    monkeypatch.chdir(tmp_path / "bin")
    monkeypatch.setenv("PATH", "/usr/bin")
    assert this_command.as_typed("penstock ps") == "./penstock ps"
    assert this_command.as_typed("no-such-program -x") == "no-such-program -x"


def test_the_command_after_the_demo_works_in_the_shell_that_ran_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    program, *_ = shlex.split(try_it())
    assert subprocess.run([program, "--help"], capture_output=True, check=False).returncode == 0
    assert Path(program).samefile(Path(sys.executable).parent / "penstock")
    assert Path(job_of(try_it()).script).samefile(EXAMPLES / "gpt.py")
