"""``penstock profile op``: operations that a profile does not know are timed and added to it."""

from pathlib import Path

import pytest

from penstock.predict import DeviceProfile, device_named
from penstock.predict.iteration import IterationModel
from penstock.predict.lab.fitting.boosting import BoostingOptions
from penstock.predict.lab.fitting.kernel_fitting import fit_kernels
from tests.cli.conftest import Penstock
from tests.predict.kernels.made_up import measured, some_additions

pytest.importorskip("torch")
pytest.importorskip("sklearn")

SCRIPT = """
import torch
from torch import nn
class Sums(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(64))
    def forward(self, x):
        return (x * self.weight).cumsum(1)
def penstock_model(batch):
    return Sums(), torch.randn(batch, 64)
"""


@pytest.fixture
def folder(penstock: Penstock, tmp_path: Path) -> Path:
    """A profile of this CPU that knows additions and nothing else."""
    chip = device_named("cpu")
    kernels = fit_kernels(measured(some_additions(60, 0)), chip, options=BoostingOptions(trees=4, bins=16))
    profile = DeviceProfile.unprofiled(chip)
    folder = tmp_path / "data" / "profiles" / "cpu"
    model = IterationModel(kernels=kernels, serial=True)
    DeviceProfile(name="cpu", chip=chip, iteration=model, power=profile.power).save(folder)
    return folder


def _operations(folder: Path) -> set[str]:
    return {key.split(":")[1].split("/")[0] for key in DeviceProfile.load(folder).iteration.kernels.operations.times}


def test_named_operations_are_timed_and_added(penstock: Penstock, folder: Path) -> None:
    assert "cumsum" not in _operations(folder)
    done = penstock("profile", "op", "cumsum", "--kind", "cpu")
    assert done.code == 0, done.err
    assert "profile cpu now knows" in done.out
    assert "cumsum" in _operations(folder)
    times = DeviceProfile.load(folder).iteration.kernels.operations.times
    assert all(time.launches >= 1 and time.width > 0 for time in times.values())


def test_the_operations_of_a_script_are_timed_and_added(penstock: Penstock, folder: Path) -> None:
    Path("train.py").write_text(SCRIPT, encoding="utf-8")
    done = penstock("profile", "op", "train.py", "--kind", "cpu", "--batch", "4", "--precision", "fp32")
    assert done.code == 0, done.err
    assert "cumsum" in _operations(folder)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cumsun",), "Did you mean 'cumsum'"),
        (("cumsum", "--kind", "tpu"), "auto, cuda or cpu"),
        (("missing.py",), "no file missing.py"),
        (("cumsum", "--batch", "0"), "--batch"),
        (("cumsum", "--name", "a100"), "penstock profile device"),
        ((), "Missing argument"),
    ],
)
def test_what_cannot_be_timed_is_refused_and_changes_nothing(
    penstock: Penstock, folder: Path, words: tuple[str, ...], said: str
) -> None:
    before = (folder / "profile.json").read_text(encoding="utf-8")
    kind = () if "--kind" in words else ("--kind", "cpu")
    done = penstock("profile", "op", *words, *kind)
    assert done.code == 2, done.out
    assert said in " ".join((done.out + done.err).split())
    assert (folder / "profile.json").read_text(encoding="utf-8") == before


def test_without_a_profile_there_is_nothing_to_add_to(penstock: Penstock) -> None:
    done = penstock("profile", "op", "cumsum", "--kind", "cpu")
    assert done.code == 2
    assert "cpu has no profile to add to" in done.err
