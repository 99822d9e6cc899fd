"""Jobs that name a model: what they run, what else they need, and what does not go together."""

from pathlib import Path

import pytest

from penstock.core import InputError
from penstock.spec import job, load_job_file, to_mapping

MODEL = {"model": "gpt-1.3b", "work": 100, "global_batch": 64}


def test_a_model_alone_is_trained_by_us() -> None:
    file = job(**MODEL, devices="2..8", checkpoint={"every": "5m"}, args=["--lr", "1e-3"])
    assert file.uses_own_trainer
    assert file.name == "gpt-1.3b"
    assert file.command_line("python") == (
        "python", "-m", "penstock.runtime.parallel.train", "--steps", "100", "--checkpoint-every", "300",
        "--lr", "1e-3",
    )  # fmt: skip
    assert job(**to_mapping(file)) == file


def test_a_command_of_ones_own_takes_the_plan() -> None:
    file = job(**MODEL, command=["mine", "--plan", "{plan}", "--steps", "{steps}"])
    assert not file.uses_own_trainer
    assert file.command_line() == ("mine", "--plan", "{plan}", "--steps", "100")
    assert job(**MODEL, script="train.py", args=["{plan}"]).command_line("py") == ("py", "train.py", "{plan}")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"command": "python train.py"}, r"a model beside a command that is not given the plan.*\{plan\}"),
        ({"script": "train.py", "args": ["--fast"]}, r"a model beside a script that is not given the plan"),
        ({"global_batch": None}, "the model gpt-1.3b without global_batch"),
        ({"model": None, "seq": 128, "script": "train.py"}, "seq without a model"),
        ({"model": None}, "neither command nor script nor model"),
    ],
)
def test_what_does_not_go_together(given: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        job(**{key: value for key, value in {**MODEL, **given}.items() if value is not None})


def test_what_decides_the_speed() -> None:
    plain = job(**MODEL).fingerprint()
    assert job(**{**MODEL, "work": 7}, devices=4).fingerprint() == plain
    others = [{"model": "gpt-2.6b"}, {"seq": 512}, {"global_batch": 32}, {"args": ["--data", "x.bin"]}]
    assert len({plain, *(job(**{**MODEL, **other}).fingerprint() for other in others)}) == 5


def test_a_config_file_is_found_from_the_job_file(tmp_path: Path) -> None:
    text = "model: tiny.json\nwork: 5\nglobal_batch: 8\n"
    (tmp_path / "job.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"there is no file .*tiny\.json"):
        load_job_file(tmp_path / "job.yaml")
    (tmp_path / "tiny.json").write_text("{}", encoding="utf-8")
    file = load_job_file(tmp_path / "job.yaml")
    assert (file.model, file.name) == (str(tmp_path / "tiny.json"), "tiny")
