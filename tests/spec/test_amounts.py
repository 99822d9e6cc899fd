"""How long to train, said once: in the work, and from there in the arguments."""

from pathlib import Path
from typing import Any

import pytest

from penstock.core import InputError
from penstock.spec import JobFile, Profiling, parse_job


def job(tmp_path: Path, **keys: Any) -> JobFile:
    (tmp_path / "train.py").write_text("pass\n")
    return parse_job({"script": "train.py", "work": "400 steps", **keys}, base=tmp_path)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"args": ["--steps", "{steps}"]}, ("--steps", "400")),
        ({"args": ["--steps={steps}", "{other}"]}, ("--steps=400", "{other}")),
        ({"args": ["--epochs", "{epochs}"], "steps_per_epoch": 100}, ("--epochs", "4")),
        ({"args": ["{epochs}", "{steps}"], "work": "3 epochs", "steps_per_epoch": 7}, ("3", "21")),
    ],
)  # fmt: skip
def test_the_work_is_filled_in(tmp_path: Path, keys: dict[str, Any], words: tuple[str, ...]) -> None:
    assert job(tmp_path, **keys).command_line("python")[2:] == words


def test_a_command_line_is_filled_in_and_needs_no_shell_for_it() -> None:
    made = parse_job({"command": "python train.py --steps {steps}", "work": 50})
    assert made.command_line() == ("python", "train.py", "--steps", "50")
    listed = parse_job({"command": ["train", "{steps}"], "work": 50})
    assert listed.command_line() == ("train", "50")


@pytest.mark.parametrize("keys", [{"work": "400 steps"}, {"work": "1.5 epochs", "steps_per_epoch": 10}])
def test_epochs_that_cannot_be_counted_are_refused(tmp_path: Path, keys: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"\{epochs\} .*not a whole number of epochs.*write \{steps\}"):
        job(tmp_path, args=["{epochs}"], **keys)


@pytest.mark.parametrize(
    "args",
    [
        ["--steps", "400"], ["--steps", "{steps}"], ["--steps", "10_000"], ["--steps", "10k"],
    ],
)  # fmt: skip
def test_another_amount_is_the_same_job(tmp_path: Path, args: list[str]) -> None:
    assert job(tmp_path, args=args).fingerprint() == job(tmp_path, args=["--steps", "7"], work=7).fingerprint()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["--max_steps=5"], ["--max_steps={steps}"]), (["trainer.max_epochs=3"], ["trainer.max_epochs=30"]),
        (["--num-train-epochs", "3"], ["--num-train-epochs", "4.5"]), (["-epochs", "3"], ["-epochs", "4"]),
    ],
)  # fmt: skip
def test_the_spellings_of_common_trainers_are_known(tmp_path: Path, one: list[str], other: list[str]) -> None:
    assert job(tmp_path, args=one).fingerprint() == job(tmp_path, args=other).fingerprint()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["--accumulation-steps", "1"], ["--accumulation-steps", "4"]), (["--layers", "3"], ["--layers", "4"]),
        (["--steps", "fast"], ["--steps", "slow"]), (["--batch=3"], ["--batch=4"]), (["3"], ["4"]),
    ],
)  # fmt: skip
def test_other_numbers_count(tmp_path: Path, one: list[str], other: list[str]) -> None:
    assert job(tmp_path, args=one).fingerprint() != job(tmp_path, args=other).fingerprint()


def test_how_to_profile_is_one_of_three(tmp_path: Path) -> None:
    assert job(tmp_path).profile is Profiling.AUTO
    assert job(tmp_path, profile="first").profile is Profiling.FIRST
    with pytest.raises(InputError, match=r"'frist'.*auto, first, never"):
        job(tmp_path, profile="frist")
