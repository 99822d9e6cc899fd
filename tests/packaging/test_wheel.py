"""What people download: small, whole, and importable without the checkout it was built from.

``make test-wheel`` goes further: it installs the wheel into an empty environment and runs jobs with it.
"""

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from tests.packaging.building import build_wheel
from tests.tools import needs

LARGEST_BYTES = 12_000_000
NEEDED = {
    "penstock/examples/gpt.py",
    "penstock/py.typed",
    "penstock/predict/profiles/h200/kernels.npz",
    "penstock/predict/profiles/h200/profile.json",
    "penstock/simulate/report/assets/page.css",
    "penstock/web/static/style.css",
}
_IMPORT_ALL = """
import importlib, importlib.util, pkgutil, sys
import penstock
print(penstock.__file__)
trainers = {"huggingface": "transformers", "lightning": "lightning"}
for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
    last = module.name.rpartition(".")[2]
    if ".integrations." in module.name and last in trainers and importlib.util.find_spec(trainers[last]) is None:
        continue
    if last != "__main__" and ".migrations." not in module.name:
        importlib.import_module(module.name)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("hatchling") is None:
        needs.missing_engine("hatchling, which builds the wheel, is not installed", needs.PACKAGES)
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def test_it_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < LARGEST_BYTES


def test_it_has_what_programs_read_and_nothing_that_only_we_need(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        names = {PurePosixPath(name) for name in file.namelist()}
    assert {str(name) for name in names} >= NEEDED
    assert any("migrations" in name.parts and name.suffix == ".py" for name in names)
    assert {name.parts[0].partition("-")[0] for name in names} == {"penstock"}
    assert not [str(name) for name in names if {"tests", "bench"} & set(name.parts)]
    assert not [str(name) for name in names if name.name.startswith("test_") or name.suffix in (".csv", ".gz")]


@pytest.mark.long
def test_every_module_of_it_can_be_imported_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _IMPORT_ALL], cwd=tmp_path, env=environment, capture_output=True,
        text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.splitlines()[0]).is_relative_to(tmp_path)
