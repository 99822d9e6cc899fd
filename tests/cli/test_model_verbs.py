"""``penstock predict``, ``plan`` and ``profile device`` about models nobody has run yet."""

from pathlib import Path
from typing import Any

import pytest

from penstock.cli.models.device_counts import device_counts
from penstock.core import InputError
from tests.cli.conftest import Done, Penstock

pytest.importorskip("torch")

SCRIPT = """
import torch
from torch import nn
def penstock_model(batch):
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4)), torch.randn(batch, 3, 16, 16)
"""
PLAN = ("--cluster", "2xT4", "--batch", "4", "--seconds", "0.1")


@pytest.fixture
def predict(penstock: Penstock, tmp_path: Path) -> Penstock:
    (tmp_path / "train.py").write_text(SCRIPT.replace("LazyLinear(4)", "Linear(8 * 14 * 14, 4)"), encoding="utf-8")

    def run(*words: str) -> Done:
        return penstock("predict", "train.py", "--device", "h200", *words)

    return run


def answer(done: Done) -> Any:
    return done.json()


def test_a_prediction_in_words(predict: Penstock) -> None:
    done = predict("--batch", "8", "--devices", "1,2")
    assert done.code == 0, done.err
    first, header, one, two, where = done.out.splitlines()
    assert first == "0.0 M parameters, batch 8, bf16, nchw, adamw on h200"
    assert header.split()[:2] == ["devices", "iteration"]
    assert [row.split()[0] for row in (one, two)] == ["1", "2"]
    assert where.startswith("where the time goes: ")


def test_a_prediction_for_programs(predict: Penstock) -> None:
    seen = answer(predict("--batch", "8", "--devices", "2,1", "--json"))
    assert (seen["device"], seen["batch"], seen["precision"], seen["layout"]) == ("h200", 8, "bf16", "nchw")
    assert [point["devices"] for point in seen["points"]] == [1, 2]
    assert [point["samples_per_device"] for point in seen["points"]] == [8, 4]
    for point in seen["points"]:
        assert 0 < point["low_s"] <= point["iteration_s"] <= point["high_s"]
        assert sum(point["memory_bytes"][part] for part in ("weights", "gradients")) <= point["memory_bytes"]["peak"]
    assert [point["communication_s"] > 0 for point in seen["points"]] == [False, True]


def test_a_measured_iteration_is_believed(predict: Penstock) -> None:
    seen = answer(predict("--batch", "8", "--measured", "8:0.5", "--json"))
    assert seen["points"][0]["iteration_s"] == pytest.approx(0.5, rel=0.01)


def test_layouts_and_precisions_are_compared(predict: Penstock) -> None:
    done = predict("--batch", "8", "--compare-layouts")
    assert done.code == 0, done.err
    assert [line.split()[:2] for line in done.out.splitlines()[1:3]] == [["bf16,", "nchw"], ["bf16,", "nhwc"]]
    assert done.out.splitlines()[-1].startswith("fastest: bf16, n")
    seen = answer(predict("--batch", "8", "--compare-precisions", "--json"))
    assert [each["precision"] for each in seen] == ["fp32", "tf32", "bf16", "amp-bf16"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--devices", "one"), "device counts 'one'"),
        (("--devices", ","), "device counts ','"),
        (("--devices", "0"), "0"),
        (("--measured", "32"), "a measured iteration '32'"),
        (("--measured", "x:1"), "BATCH:SECONDS"),
        (("--layout", "chw"), "Did you mean 'nchw'"),
        (("--precision", "bf61"), "Did you mean 'bf16'"),
        (("--optimizer", "adamv"), "adamw"),
        (("--link", "nvlink9"), "nvlink9"),
        (("--batch", "0"), "--batch"),
    ],
)
def test_a_question_that_cannot_be_asked_says_what_can(words: tuple[str, ...], said: str, predict: Penstock) -> None:
    done = predict(*words)
    assert done.code == 2
    assert said in done.err
    assert (done.out, "Traceback" in done.err) == ("", False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("predict", "resnet51"), "Did you mean 'resnet50'"),
        (("predict", "resnet50", "--device", "h201"), "Did you mean 'h200'"),
        (("predict", "absent.py"), "absent.py"),
        (("predict", "json:absent"), "absent"),
        (("predict", "empty.py"), "penstock_model"),
        (("predict",), "Missing argument"),
        (("plan", "gpt-350m", "--batch", "4"), "--cluster"),
        (("plan", "gpt-350m", "--cluster", "2xT4", "--batch", "0"), "a global batch of 0"),
        (("plan", "gpt-350m", *PLAN, "--devices", ","), "device counts ','"),
        (("plan", "gpt-350m", *PLAN, "--export", "no.such:export"), "no.such"),
        (("plan", "gpt-350m", *PLAN, "--devices", "1", "--export", "megatron"), "--devices together with --export"),
        (("profile", "device", "--kind", "tpu"), "auto, cuda or cpu"),
        (("profile", "device", "--minutes", "0"), "--minutes"),
    ],
)
def test_bad_input_is_one_message(words: tuple[str, ...], said: str, penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("", encoding="utf-8")
    done = penstock(*words)
    assert done.code == 2
    assert said in done.err
    assert (done.out, "Traceback" in done.err) == ("", False)


def test_a_curve_of_plans_for_programs_says_what_does_not_fit(penstock: Penstock) -> None:
    rows = answer(penstock("plan", "gpt-2.6b", *PLAN, "--devices", "1,2", "--json"))
    assert list(rows) == ["1", "2"]
    assert "does not fit" in rows["1"]["refused"]


def test_counts_are_read_as_people_type_them() -> None:
    assert device_counts("1, 2,8,") == [1, 2, 8]
    with pytest.raises(InputError, match=r'Try "1,2,4,8"'):
        device_counts("1;2")


def test_a_curve_as_a_table(penstock: Penstock) -> None:
    done = penstock("plan", "gpt-350m", *PLAN, "--devices", "1,2")
    assert done.code == 0, done.err
    assert [line.split()[0] for line in done.out.splitlines()] == ["devices", "1", "2"]
