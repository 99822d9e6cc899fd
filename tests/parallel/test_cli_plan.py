"""``penstock plan`` as a person meets it."""

import json
import subprocess
from pathlib import Path

import pytest

from penstock.core import ParallelPlan
from tests.tools import commandline

QUICK = ("--cluster", "4xA100-40GB", "--batch", "32", "--seconds", "1")


def penstock(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return commandline.penstock("plan", *arguments, cwd=cwd)


def test_shows_a_picture_and_explains(tmp_path: Path) -> None:
    done = penstock("gpt-1.3b", *QUICK, "--explain", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "gpt-1.3b (1.32 billion parameters) on 1x4xA100-40GB, batch 32 x 2048 tokens" in done.stdout
    assert "node 0" in done.stdout
    assert "no plan can take less than" in done.stdout
    assert "s/iteration" in done.stdout
    assert "assumed links" in done.stderr


def test_json_holds_a_plan_that_reads_back(tmp_path: Path) -> None:
    done = penstock("gpt-350m", *QUICK, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    plan = ParallelPlan.from_mapping(report["plan"])
    assert plan.devices == report["devices"] == 4
    assert report["iteration_s"] > report["bound_s"] > 0
    assert len(report["memory_bytes"]) == len(plan.stages)
    assert max(report["memory_bytes"]) <= report["memory_limit_bytes"]


def test_curve_over_device_counts(tmp_path: Path) -> None:
    done = penstock("gpt-350m", *QUICK, "--devices", "1,2,4", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [row[0] for row in rows] == ["1", "2", "4"]
    speeds = [float(row[2]) for row in rows]
    assert speeds == sorted(speeds)


def test_export_goes_to_stdout_and_the_launch_line_to_stderr(tmp_path: Path) -> None:
    done = penstock("gpt-350m", *QUICK, "--export", "megatron", "--uniform", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("--num-layers 24\n")
    assert "torchrun" in done.stderr


def test_a_plan_of_ones_own_is_priced(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("tp: 2\nmicro_batch: 4\nrecompute: full\n", encoding="utf-8")
    own = ("gpt-1.3b", "--cluster", "4xA100-40GB", "--batch", "32", "--evaluate", "own.yaml")
    done = penstock(*own, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "tp2 dp2" in done.stdout
    assert "tried" not in done.stdout
    written = penstock(*own, "--export", "megatron", cwd=tmp_path)
    assert "--recompute-granularity full\n" in written.stdout
    refused = penstock(*own, "--devices", "1,2", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--evaluate together with --devices" in refused.stderr


def test_tokens_become_days_and_money(tmp_path: Path) -> None:
    own = ("gpt-350m", *QUICK, "--tokens", "1.5B", "--price", "2")
    done = penstock(*own, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1.5B tokens: 22,889 iterations" in done.stdout
    report = json.loads(penstock(*own, "--json", cwd=tmp_path).stdout)
    run = report["run"]
    assert run["seconds"] == pytest.approx(run["iterations"] * report["iteration_s"])
    assert run["cost"] == pytest.approx(2 * run["device_hours"])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--tokens", "many"), "'many' tokens"),
        (("--price", "2"), "--price without --tokens"),
        (("--tokens", "1B", "--price", "-1"), "a price of -1.0"),
    ],
)
def test_amounts_that_make_no_sense_are_refused(tmp_path: Path, options: tuple[str, ...], reason: str) -> None:
    done = penstock("gpt-350m", "--cluster", "4xA100-40GB", "--batch", "8", "--seconds", "0.1", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert reason in done.stderr


def test_files_for_model_and_cluster(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "gpt2", "n_embd": 512, "n_layer": 8, "n_head": 8, "vocab_size": 50304}),
        encoding="utf-8",
    )
    (tmp_path / "site.yaml").write_text("devices_per_node: 2\ndevice: t4\n", encoding="utf-8")
    done = penstock("config.json", "--cluster", "site.yaml", "--batch", "16", "--seconds", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1x2xT4" in done.stdout


SCRIPT = """
import torch
from torch import nn
def penstock_model(batch):
    return nn.Sequential(*(nn.Linear(256, 256) for _ in range(8))), torch.randn(batch, 256)
if __name__ == "__main__":
    raise SystemExit("this is not run")
"""


def test_a_script_with_our_hook(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    done = penstock("train.py", *QUICK, "--check", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "train.py (0.00 billion parameters) on 1x4xA100-40GB" in done.stdout
    assert "kernels of train.py by a roofline of the datasheet of a100-40gb" in done.stderr
    assert "check: export only: only the GPT family runs here" in done.stderr


def test_a_module_and_a_function(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "mine.py").write_text(SCRIPT.replace("penstock_model", "build"), encoding="utf-8")
    done = penstock("mine:build", *QUICK, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["plan"]["model"] == "mine:build"


def test_check_runs_the_plan(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = penstock(
        "gpt-350m", "--cluster", "2xT4", "--batch", "4", "--seconds", "1", "--json", "--check", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["export_only"] is None
    assert report["check"]["equal"] is True
    assert report["check"]["gradient_error"] < 1e-4
    assert "check: equal" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("gpt-1.3c", *QUICK), "unknown model 'gpt-1.3c'"),
        (("gpt-1.3b", "--cluster", "8xX1", "--batch", "8"), "unknown device 'X1'"),
        (("gpt-2.6b", "--cluster", "1xT4", "--batch", "8", "--seconds", "0.1"), "does not fit"),
        (("gpt-1.3b", *QUICK, "--memory", "90GB"), "a memory limit of 90.0GB"),
        (("gpt-1.3b", *QUICK, "--export", "horovod"), "unknown trainer 'horovod'"),
        (("gpt-1.3b", *QUICK, "--devices", "one"), "device counts 'one'"),
        (("gpt-1.3b", *QUICK, "--devices", "64"), "64 devices"),
        (("gpt-1.3b", *QUICK, "--schedule", "dualpipe"), "unknown schedule 'dualpipe'"),
        (("gpt-1.3b", *QUICK, "--memory", "lots"), "'lots' is not a size"),
        (("gpt-1.3b", *QUICK, "--devices", "1,2", "--check"), "--devices together with --check"),
        (("gpt-1.3b", *QUICK, "--uniform"), "--uniform without --export"),
        (("gpt-1.3b", *QUICK, "--seconds", "nan"), "nan seconds to search"),
        (("absent.py", *QUICK), "no file absent.py"),
        (("gpt-1.3b", "--cluster", "site.yaml", "--batch", "8"), "cannot read site.yaml"),
        (("config.json", *QUICK), "cannot read config.json"),
    ],
)  # fmt: skip
def test_bad_input_is_explained_in_one_message(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = penstock(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
