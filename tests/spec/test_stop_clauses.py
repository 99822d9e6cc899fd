"""Work until a metric says that it is enough: every way to write it, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from penstock.core import InputError, StopRule, Unlikely
from penstock.spec import JobFile, from_flags, job, json_schema, to_mapping

ACC = StopRule(metric="val_acc", rising=True, target=0.92)
LOSS = StopRule(metric="val_loss", rising=False, patience=50.0)


def training(work: Any) -> JobFile:
    return job(command="python train.py", work=work, steps_per_epoch=10)


@pytest.mark.parametrize(
    ("work", "rule", "steps"),
    [
        ("until val_acc >= 0.92, at most 50 epochs", ACC, 500),
        ("Until val_acc≥0.92 , at most 1k steps", ACC, 1000),
        ({"until": "val_acc >= 0.92", "at_most": "50 epochs"}, ACC, 500),
        ({"until": {"metric": "val_acc", "at_least": 0.92}, "at_most": 500}, ACC, 500),
        ("until val_loss stops improving for 5 epochs, at most 100 epochs", LOSS, 1000),
        ("until val_loss stops falling for 50 steps, at most 1000 steps", LOSS, 1000),
        ({"until": {"metric": "val_loss", "patience": "5 epochs"}, "at_most": "100 epochs"}, LOSS, 1000),
        (
            "until fid stops falling by 0.1 for 50, at most 1000, if unlikely best effort",
            StopRule(metric="fid", rising=False, patience=50, least_gain=0.1, if_unlikely=Unlikely.BEST_EFFORT),
            1000,
        ),
        (
            {"until": {"metric": "loss", "at_most": 1e-3}, "at_most": 9, "if_unlikely": "stop"},
            StopRule(metric="loss", rising=False, target=1e-3, if_unlikely=Unlikely.STOP),
            9,
        ),
    ],
)
def test_every_form_means_a_rule_and_the_most_and_is_written_as_text(work: Any, rule: StopRule, steps: int) -> None:
    file = training(work)
    assert (file.stop_rule, file.steps) == (rule, steps)
    assert training(to_mapping(file)["work"]).work == file.work


@pytest.mark.parametrize(
    ("work", "said"),
    [
        ("until val_acc >= 0.92", "has no end if that is never reached"),
        ({"until": "val_acc >= 0.92"}, "work with until"),
        ({"untl": "val_acc >= 0.92", "at_most": 5}, "Did you mean 'until'"),
        ("until val_acc > 0.92, at most 5", "Write >= or <="),
        ("until val_acc is good, at most 5", "no condition to train until"),
        ("until val_acc >= high, at most 5", "the target of val_acc is 'high'"),
        ("until val_acc >= 1e999, at most 5", "a finite number"),
        ("until step >= 3, at most 5", "'step' is not the name of a metric"),
        ("until quality stops improving for 5, at most 50", 'Write "quality stops falling for'),
        ("until loss stops improving for ever, at most 50", "not an amount of work"),
        ("until loss stops improving for 5, at most ever", "not an amount of work"),
        ("until loss <= 1, at most 5, if unlikely explode", "Allowed: best effort, stop, tell"),
        (
            {"until": {"metric": "a", "at_least": 1, "at_most": 2}, "at_most": 5},
            "and one of at_least, at_most",
        ),
        ({"until": {"metric": "a", "at_least": 1, "direction": "rising"}, "at_most": 5}, "direction without patience"),
        ({"until": {"metric": "a", "at_lest": 1}, "at_most": 5}, "Did you mean 'at_least'"),
        ({"until": ["a"], "at_most": 5}, "no condition to train until"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_is_allowed(work: Any, said: str) -> None:
    with pytest.raises(InputError) as refused:
        training(work)
    assert said in str(refused.value)


def test_patience_in_epochs_needs_to_know_an_epoch() -> None:
    with pytest.raises(InputError, match="cannot be counted in steps"):
        job(command="train", work="until loss stops improving for 5 epochs, at most 100 steps")


def test_the_flag_goes_over_the_file_and_keeps_its_most(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("command: train\nwork: until loss <= 1, at most 70 steps, if unlikely stop\n")
    work = from_flags(file=file, until="val_acc >= 0.5").work
    assert str(work) == "until val_acc >= 0.5, at most 70 steps, if unlikely stop"
    assert str(from_flags(["train"], work="9 steps", until="loss <= 1").work) == "until loss <= 1.0, at most 9 steps"
    with pytest.raises(InputError, match="--until without work"):
        from_flags(["train"], until="loss <= 1")
    with pytest.raises(InputError, match="--until: 'loss < 1'"):
        from_flags(["train"], work="9", until="loss < 1")


def test_editors_know_the_forms() -> None:
    forms = json_schema()["properties"]["work"]["anyOf"]
    assert any(form.get("required") == ["until", "at_most"] for form in forms)
