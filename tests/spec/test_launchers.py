"""Launchers in front of a command are taken off, and how many devices a job gets that does not say."""

from pathlib import Path

import pytest

from penstock.core import Curve
from penstock.spec import DevicesPart, JobFile, dump_yaml, parse_job
from penstock.spec.documents import parse_yaml
from penstock.spec.launchers import find_launcher


def job(command: str, **more: object) -> JobFile:
    return parse_job({"command": command, "work": 5, **more})


@pytest.mark.parametrize(
    ("command", "words", "devices"),
    [
        ("torchrun train.py --lr 3", ("python", "train.py", "--lr", "3"), 1),
        ("torchrun --nproc-per-node=4 train.py", ("python", "train.py"), 4),
        ("torchrun --nnodes 2 --nproc_per_node 4 train.py", ("python", "train.py"), 8),
        ("torchrun --nnodes=1:2 --nproc-per-node=4 train.py", ("python", "train.py"), 8),
        ("torchrun --standalone --nproc-per-node gpu -m pkg.train -x", ("python", "-m", "pkg.train", "-x"), None),
        ("torchrun --module pkg.train", ("python", "-m", "pkg.train"), 1),
        ("/opt/bin/torchrun train.py", ("/opt/bin/python", "train.py"), 1),
        ("python3 -m torch.distributed.run --nproc-per-node=2 a.py", ("python3", "a.py"), 2),
        ("python -m torch.distributed.launch a.py", ("python", "a.py"), 1),
        ("accelerate launch --multi_gpu --num_processes 4 a.py", ("python", "a.py"), 4),
        ("accelerate launch a.py", ("python", "a.py"), None),
    ],
)
def test_a_launcher_is_taken_off(command: str, words: tuple[str, ...], devices: int | None) -> None:
    found = job(command)
    assert found.command_line("python") == words
    assert found.launcher is not None
    assert found.launcher.devices == devices


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --no-python ./x", "torchrun --nproc-per-node=many x.py", "torchrun",
        "accelerate launch --use_fsdp x.py", "accelerate launch --config_file a.yaml x.py",
        "deepspeed train.py", "mpirun -n 4 python a.py",
    ],
)  # fmt: skip
def test_a_launcher_with_more_to_say_is_left_and_known(command: str) -> None:
    found = job(command)
    assert found.launcher is not None
    assert found.launcher.command == ()
    assert found.command_line() == tuple(command.split())


def test_what_is_no_launcher() -> None:
    for command in (
        "python train.py",
        "python -m torch.utils.bottleneck a.py",
        "accelerated a.py",
        "cd x && torchrun a",
    ):
        assert job(command).launcher is None
    assert parse_job({"script": "train.py", "work": 5}).launcher is None
    assert find_launcher(()) is None


def test_precision_that_accelerate_would_pass_on_stays_and_the_file_outweighs_it() -> None:
    command = "accelerate launch --mixed_precision=bf16 a.py"
    assert job(command).variables == {"ACCELERATE_MIXED_PRECISION": "bf16"}
    own = {"env": {"ACCELERATE_MIXED_PRECISION": "no"}}
    assert job(command, environment=own).variables == own["env"]


def test_with_a_launcher_and_without_it_is_the_same_speed() -> None:
    plain = parse_job({"script": "train.py", "args": ["--lr", "3"], "work": 5})
    assert job("torchrun --nproc-per-node=2 train.py --lr 3").fingerprint() == plain.fingerprint()


def test_who_says_nothing_of_devices_gets_one_unless_it_can_resume(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("import torch\n")
    (tmp_path / "mine.py").write_text("from penstock import elastic\n")
    here = {"environment": {"working_dir": str(tmp_path)}, "work": 5}

    def bounds(**values: object) -> tuple[int, int | None]:
        found = parse_job({**here, **values})
        asked = found.to_job(
            job_id="j", curve=Curve.from_table({1: 1.0}, "cpu"), now=0.0, resumable=found.says_resumable
        )
        return asked.at_least, asked.at_most

    assert bounds(script="plain.py") == (1, 1)
    assert bounds(command="sh run.sh") == (1, 1)
    assert bounds(script="plain.py", global_batch=64) == (1, 1)
    assert bounds(script="plain.py", devices="1..") == (1, None)
    assert bounds(script="plain.py", devices="2..4") == (2, 4)
    assert bounds(script="plain.py", resumable=True) == (1, None)
    assert bounds(script="mine.py") == (1, None)
    assert bounds(script="mine.py", resumable=False) == (1, 1)
    assert bounds(script="mine.py", global_batch=64) == (1, 64)
    assert bounds(command="torchrun --nproc-per-node=2 plain.py") == (2, 2)
    assert bounds(command="torchrun --nproc-per-node=2 plain.py", devices="1..4") == (1, 4)


def test_bounds_that_are_said_are_kept_though_nobody_could_get_more() -> None:
    said = job("python a.py", devices="1..")
    again = parse_job(parse_yaml(dump_yaml(said), "again").values)
    assert again.devices == said.devices == DevicesPart()
    assert job("python a.py").devices is None
