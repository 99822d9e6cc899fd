"""``penstock check-ops``: the first wrong operator of a script's model."""

import runpy
from pathlib import Path

import pytest

from tests.cli.conftest import Penstock

pytest.importorskip("torch")

from tests.diagnose.mutants import MUTANTS

SCRIPT = """
import torch
from torch import nn
def penstock_model(batch):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GELU(), nn.Flatten(), nn.Linear(4 * 36, 5))
    return model, torch.randn(batch, 3, 8, 8)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    return tmp_path / "train.py"


def test_a_sound_model_ends_with_nothing(penstock: Penstock, script: Path) -> None:
    done = penstock("check-ops", "--script", str(script), "--steps", "2", "--clip", "1")
    assert done.code == 0, done.err
    assert "none is wrong" in done.out


def test_a_wrong_operator_is_named_and_ends_with_one(penstock: Penstock, script: Path) -> None:
    mutant = next(each for each in MUTANTS if each.name == "gelu_backward: density subtracted")
    with mutant.broken():
        told = penstock("check-ops", "--script", str(script))
        listed = penstock("check-ops", "--script", str(script), "--json", "--save", "again.py")
        again = runpy.run_path("again.py")
    assert (told.code, listed.code) == (1, 1)
    assert "the first wrong one is gelu_backward, backward" in told.out
    assert '"verdict": "confirmed"' in listed.out
    assert again["found"].numel() == 1
    assert "off by" in again["__doc__"]


def test_what_is_not_finite_is_named(penstock: Penstock, tmp_path: Path) -> None:
    broken = SCRIPT.replace("torch.randn(batch, 3, 8, 8)", "torch.randn(batch, 3, 8, 8), lambda out: out.log().mean()")
    (tmp_path / "train.py").write_text(broken, encoding="utf-8")
    done = penstock("check-ops", "--script", "train.py")
    assert done.code == 0, done.out
    assert "first result that is not finite: call" in done.out
    assert ", log, forward" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--script", "absent.py"), "no file absent.py"),
        (("--script", "empty.py"), "penstock_model"),
        (("--script", "raises.py"), "the model of raises.py fails: ZeroDivisionError"),
        (("--script", "exits.py"), "ends with status 3"),
        (("--script", "torn.py"), "penstock_model returned int"),
        (("--script", "train.py", "--device", "tpu"), "'tpu' is not a device to check on"),
        (("--script", "train.py", "--precision", "fp8"), "unknown precision 'fp8'"),
        (("--script", "train.py", "--optimizer", "adamx"), "Did you mean 'adamw'"),
        (("--script", "train.py", "--steps", "0"), "--steps"),
        (("--script", "train.py", "--clip", "-1"), "--clip"),
        (("--script", "train.py", "--save", "absent/again.py"), "no folder absent"),
        ((), "--script"),
    ],
)
def test_bad_input_is_one_message(
    words: tuple[str, ...], said: str, penstock: Penstock, script: Path, tmp_path: Path
) -> None:
    for name, text in {
        "empty": "", "raises": SCRIPT.replace("model =", "model = 1 / 0;"), "exits": "raise SystemExit(3)",
        "torn": "def penstock_model(batch):\n    return batch\n",
    }.items():  # fmt: skip
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    done = penstock("check-ops", *words)
    assert done.code == 2
    assert said in done.err
    assert (done.out, "Traceback" in done.err) == ("", False)
