"""What counts as the same job for its speed."""

import os
from pathlib import Path
from typing import Any

import pytest

from penstock.spec import JobFile, parse_job


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("steps = 1\n")
    (tmp_path / "conf.yaml").write_text("layers: 3\n")
    return tmp_path


def in_folder(folder: Path, **more: Any) -> JobFile:
    base = {"script": "train.py", "args": ["--config", "conf.yaml"], "work": 100, "global_batch": 64}
    return parse_job({**base, **more}, base=folder)


@pytest.mark.parametrize(
    "other",
    [
        {"name": "another"}, {"deadline": "6h"}, {"tenant": "t"}, {"work": 7}, {"priority": 3}, {"devices": 4},
        {"environment": {"env": {"WANDB_PROJECT": "x", "MY_API_KEY": "x", "LOG_LEVEL": "debug"}}},
    ],
)  # fmt: skip
def test_what_does_not_change_the_speed_does_not_count(folder: Path, other: dict[str, Any]) -> None:
    assert in_folder(folder, **other).fingerprint() == in_folder(folder).fingerprint()


@pytest.mark.parametrize(
    "other",
    [
        {"args": ["--config", "conf.yaml", "--amp"]}, {"global_batch": 128}, {"args": []},
        {"environment": {"env": {"OMP_NUM_THREADS": 4}}}, {"environment": {"requirements": ["einops"]}},
    ],
)  # fmt: skip
def test_what_changes_the_speed_counts(folder: Path, other: dict[str, Any]) -> None:
    assert in_folder(folder, **other).fingerprint() != in_folder(folder).fingerprint()


@pytest.mark.parametrize("file", ["train.py", "conf.yaml"])
def test_the_content_of_named_files_counts(folder: Path, file: str) -> None:
    before = in_folder(folder).fingerprint()
    (folder / file).write_text("layers: 4\n")

    assert in_folder(folder).fingerprint() != before


def test_the_place_of_the_script_does_not_count(folder: Path) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    for file in ("train.py", "conf.yaml"):
        (elsewhere / file).write_bytes((folder / file).read_bytes())

    assert in_folder(elsewhere).fingerprint() == in_folder(folder).fingerprint()


def test_a_script_and_the_command_that_runs_it_are_the_same(folder: Path) -> None:
    command = parse_job({"command": "python train.py --config conf.yaml", "work": 1, "global_batch": 64}, base=folder)

    assert command.fingerprint() == in_folder(folder).fingerprint()


def test_requirements_count_by_content(folder: Path) -> None:
    (folder / "a.txt").write_text("einops  # layers\n\nnumpy\n")
    by_file = in_folder(folder, environment={"requirements": "a.txt"})
    by_list = in_folder(folder, environment={"requirements": ["numpy", "einops"]})

    assert by_file.fingerprint() == by_list.fingerprint()


@pytest.mark.parametrize(
    ("statement", "module"),
    [
        ("import helper", "helper.py"), ("import os, helper as h", "helper.py"), ("    import helper #", "helper.py"),
        ("from helper import train", "helper.py"), ("import pack.deep", "pack/deep.py"),
        ("import pack.deep", "pack/__init__.py"), ("from pack import (\n    deep,\n)", "pack/deep.py"),
        ("from pack import deep", "pack/nested.py"),
    ],
)  # fmt: skip
def test_a_changed_module_beside_the_script_is_another_job(folder: Path, statement: str, module: str) -> None:
    (folder / "pack").mkdir()
    for name in ("helper.py", "pack/__init__.py", "pack/nested.py"):
        (folder / name).write_text("x = 1\n")
    (folder / "pack" / "deep.py").write_text("from . import nested\nfrom .nested import x\nfrom ..far import y\n")
    (folder / "train.py").write_text(f"{statement}\n")
    before = in_folder(folder).fingerprint()
    (folder / "unrelated.py").write_text("x = 1\n")
    assert in_folder(folder).fingerprint() == before
    (folder / module).write_text((folder / module).read_text() + "z = 2\n")
    assert in_folder(folder).fingerprint() != before


def test_modules_that_import_each_other_or_cannot_be_read_are_no_trouble(folder: Path) -> None:
    (folder / "train.py").write_text("import train, first, nowhere\nimport " + ", ".join(f"m{i}" for i in range(500)))
    (folder / "first.py").write_text("import second\nfrom .......... import up\nfrom \xff import (")
    (folder / "second.py").write_bytes(b"import first\n\xff\xfe\x00import train\n")
    os.mkfifo(folder / "nowhere.py")
    assert in_folder(folder).fingerprint() == in_folder(folder).fingerprint()


def test_a_script_without_modules_of_its_own_keeps_the_fingerprint_it_had(folder: Path) -> None:
    assert in_folder(folder).fingerprint() == "fa44d90709390c18fa9ea082814bf441"
