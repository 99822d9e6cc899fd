"""Kernel models on disk: of this version and the one before, damaged, cut off, and of versions to come."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.core import InputError
from penstock.predict.kernels import KernelModel, files
from penstock.predict.kernels.error_bars import ErrorBars
from penstock.predict.kernels.family import FamilyModel, rates_of
from penstock.predict.kernels.features import features
from penstock.predict.kernels.layer_memory import layer_keys
from penstock.predict.kernels.packing import rounded_leaves
from penstock.predict.kernels.tiling import work_of
from penstock.predict.kernels.trees import Forest
from penstock.predict.lab.fitting.layer_memory_fitting import remember_layers
from tests.predict.kernels.made_up import CHIP, conv

CALLS = [conv(64, 56), conv(64, 56, batch=16), conv(128, 28), conv(96, 14)]


def stump(threshold: float, low: float, high: float) -> Forest:
    """One tree with one split on the first feature, its leaves rounded as those of grown ones are."""
    roots, leaf = np.array([0], dtype=np.int32), np.array([False, True, True])
    return Forest(
        feature=np.array([0, 0, 0], dtype=np.int16),
        number=rounded_leaves(np.array([threshold, low, high]), leaf, roots),
        right=np.array([2, 1, 2], dtype=np.int32), roots=roots, base=0.125,
    )  # fmt: skip


@pytest.fixture
def model() -> KernelModel:
    """Put together by hand: two forests of the usual time, one of the mean, three layers, five error bars."""
    family = FamilyModel(
        family="conv", variants={"": 0.25}, usual=(stump(3.0, 0.25, -0.25), stump(2.5, 0.0625, 0.25)),
        mean=stump(1.5, 0.25, 0.5625),
        layer_memory=remember_layers(CALLS[:3], np.array([[0.25, 0.125], [0.25, 0.125], [-0.125, 0.0]])),
        error_bars=ErrorBars(
            references=np.arange(24.0).reshape(2, 12), distances=np.array([0.0, 1.0]), widths=np.array([0.1, 0.2])
        ),
    )  # fmt: skip
    return KernelModel(chip=CHIP, families={"conv": family})


def rewritten(path: Path, change: Any) -> None:
    """The same file with its arrays and header changed."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays["header"].tobytes())
    change(header, arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, **arrays)


def as_version_5(header: dict[str, Any], arrays: dict[str, Any], model: KernelModel) -> None:
    """What the version before this one wrote: nodes, layers and bars as they are in memory, whole hashes."""
    header["version"] = 5
    family = model.families["conv"]
    for name in [name for name in arrays if "/forest/" in name or "/recall/" in name]:
        del arrays[name]
    for number, forest in enumerate((*family.usual, family.mean)):
        assert forest is not None
        arrays |= {
            f"conv/forest/{number}/feature": forest.feature, f"conv/forest/{number}/number": forest.number,
            f"conv/forest/{number}/skip": (forest.right - np.arange(3)).astype(np.uint16),
            f"conv/forest/{number}/roots": forest.roots,
        }  # fmt: skip
    memory = family.layer_memory
    assert memory is not None
    arrays |= {
        "conv/recall/layers": memory.layers << np.uint64(24), "conv/recall/sizes": memory.sizes,
        "conv/recall/off": memory.off,
    }  # fmt: skip


def assert_same(first: KernelModel, second: KernelModel) -> None:
    before, after = first.predict(CALLS), second.predict(CALLS)
    for column in ("seconds", "mean_s", "low", "high", "in_range"):
        assert np.array_equal(getattr(before, column), getattr(after, column)), column


def test_a_model_comes_back_as_it_was(model: KernelModel, tmp_path: Path) -> None:
    model.save(tmp_path / "kernels.npz")
    again = KernelModel.load(tmp_path / "kernels.npz")
    assert (again.chip, again.families["conv"].variants) == (CHIP, {"": 0.25})
    assert_same(model, again)


def test_the_version_before_is_still_read(model: KernelModel, tmp_path: Path) -> None:
    path = tmp_path / "kernels.npz"
    model.save(path)
    rewritten(path, lambda header, arrays: as_version_5(header, arrays, model))
    with np.load(path) as file:
        assert "conv/forest/0/skip" in file.files
    assert_same(model, KernelModel.load(path))


def test_every_part_of_the_stored_model_speaks(model: KernelModel) -> None:
    """By hand, for a layer that was measured: the trees' correction, and what the memory adds."""
    family = model.families["conv"]
    call = CALLS[:1]
    plain = KernelModel(chip=CHIP, families={"conv": FamilyModel(family="conv")})
    physics = plain.predict(call).seconds[0]
    work, rates = work_of("conv", call), rates_of(call, CHIP)
    first = features(call, work, rates, family.terms(call, work, rates), family.variants)[0, 0]
    leaves = [forest.number[1 if first <= forest.number[0] else 2] for forest in family.usual]
    assert family.layer_memory is not None
    remembered = family.layer_memory.corrections(call)[0, 0]
    assert 0 < remembered < 0.25
    assert model.predict(call).seconds[0] == pytest.approx(physics * np.exp(0.125 + np.mean(leaves) + remembered))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.95, 0.999])
def test_a_file_that_was_cut_off_is_refused(model: KernelModel, tmp_path: Path, share: float) -> None:
    path = tmp_path / "kernels.npz"
    model.save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match=r"kernels\.npz"):
        KernelModel.load(path)


@pytest.mark.parametrize("at", [0.2, 0.4, 0.6, 0.8])
def test_flipped_bytes_never_end_in_a_traceback(model: KernelModel, tmp_path: Path, at: float) -> None:
    path = tmp_path / "kernels.npz"
    model.save(path)
    content = bytearray(path.read_bytes())
    place = int(at * len(content))
    content[place : place + 40] = bytes(255 - byte for byte in content[place : place + 40])
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"kernels\.npz"):
        KernelModel.load(path)


@pytest.mark.parametrize(
    ("version", "advice"), [(4, "Fit it again"), (7, "Upgrade Penstock"), (99, "Upgrade Penstock")]
)
def test_other_versions_are_refused_with_advice(model: KernelModel, tmp_path: Path, version: int, advice: str) -> None:
    path = tmp_path / "kernels.npz"
    model.save(path)
    rewritten(path, lambda header, _: header.update(version=version))
    with pytest.raises(InputError, match=f"version {version}.*{advice}"):
        KernelModel.load(path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda _, arrays: arrays.pop("conv/fallback"),
        lambda _, arrays: arrays.pop("conv/forest/1/square_roots"),
        lambda _, arrays: arrays.pop("conv/recall/off"),
        lambda _, arrays: arrays.update({"conv/forest/0/place": np.array([9], dtype=np.uint8)}),
        lambda _, arrays: arrays.update({"conv/forest/0/sizes": np.array([5], dtype=np.uint8)}),
        lambda header, _: header.pop("families"),
        lambda header, _: header.update(version="six"),
        lambda header, _: header["chip"].update(colour="green"),
        lambda header, _: header["families"]["conv"].pop("bases"),
    ],
)
def test_a_model_with_a_missing_or_wrong_part_is_damaged(model: KernelModel, tmp_path: Path, damage: Any) -> None:
    path = tmp_path / "kernels.npz"
    model.save(path)
    rewritten(path, damage)
    with pytest.raises(InputError, match=r"kernels\.npz is damaged"):
        KernelModel.load(path)


def test_a_save_that_fails_leaves_the_model_before(
    model: KernelModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kernels.npz"
    model.save(path)

    def full_disk(file: Any, _: Any) -> None:
        file.write(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(files, "write_arrays", full_disk)
    with pytest.raises(OSError, match="no space"):
        model.save(path)
    monkeypatch.undo()
    assert_same(model, KernelModel.load(path))
    assert [file.name for file in tmp_path.iterdir()] == ["kernels.npz"]


def test_layers_are_known_by_the_same_number_on_every_machine() -> None:
    assert layer_keys([conv(64, 56)]).tolist() == layer_keys([conv(64, 56, batch=16)]).tolist()
    assert layer_keys([conv(64, 56)]).tolist() != layer_keys([conv(64, 28)]).tolist()
    assert int(layer_keys([conv(64, 56)])[0]) < 2**40
