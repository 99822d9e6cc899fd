"""Every export to DeepSpeed against a record of its keys, and against its own reader where that is at hand."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from penstock.core import PlanError
from penstock.parallel.exports import deepspeed
from tests.parallel.trainers.written import DENSE, LLAMA, NARROW, OTHERS, Case, checkout, labelled, verdicts

CASES = tuple(case for case in (*DENSE, *LLAMA, *OTHERS) if case.experts == 1)
RECORD = json.loads(Path(__file__).with_name("deepspeed.json").read_text(encoding="utf-8"))
READERS = {"int": int, "bool": bool}


def launched(case: Case) -> tuple[list[str], list[str]]:
    """The launcher's words and the script's."""
    words = shlex.split(case.written(deepspeed).launch)
    script = words.index("train.py")
    return words[1:script], words[script + 1 :]


def holds(record: dict[str, Any], value: dict[str, Any]) -> None:
    for key, inside in value.items():
        known = record[key]
        if isinstance(inside, dict):
            holds(known, inside)
        else:
            assert type(inside) is READERS[known], (key, inside)


@pytest.mark.parametrize("case", labelled(CASES))
def test_keys_and_arguments_are_those_of_the_record(case: Case) -> None:
    holds(RECORD["config"], json.loads(case.written(deepspeed).text))
    launcher, script = launched(case)
    assert {word for word in launcher if word.startswith("--")} <= set(RECORD["launcher"])
    assert {word for word in script if word.startswith("--")} <= set(RECORD["script"])


@pytest.mark.parametrize("case", labelled(CASES))
def test_conditions_that_it_asserts(case: Case) -> None:
    config, (launcher, script) = json.loads(case.written(deepspeed).text), launched(case)
    replicas = case.planner().mesh.devices // (case.pp * case.tp * case.context)
    steps = config["gradient_accumulation_steps"]
    assert config["train_micro_batch_size_per_gpu"] * steps * replicas == config["train_batch_size"]
    assert not ({"bf16", "fp16"} <= set(config))
    assert ("--hostfile" in launcher) == (case.planner().mesh.nodes > 1)
    assert ("--no-pipeline-parallel" in script) == (case.pp == 1)
    if case.pp > 1:
        assert config["zero_optimization"]["stage"] < 2
    if "--enable-zbh1-pipeline" in script:
        assert "--sequence-parallel" not in script


def test_divided_experts_are_refused() -> None:
    divided = next(case for case in OTHERS if case.experts > 1)
    with pytest.raises(PlanError, match="experts divided 8 ways"):
        divided.written(deepspeed)


def test_its_own_reader_takes_every_export() -> None:
    source = checkout("PENSTOCK_DEEPSPEED", "hjson", "cpuinfo", "msgpack", "tqdm")
    asked = [
        {"config": json.loads(case.written(deepspeed).text), "launch": shlex.split(case.written(deepspeed).launch)[1:],
         "replicas": case.planner().mesh.devices // (case.pp * case.tp * case.context)}
        for case in CASES
    ]  # fmt: skip
    answers = verdicts("deepspeed_config", source, asked)
    labels = [case.label for case in CASES]
    assert not {label: problem for label, problem in zip(labels, answers, strict=True) if problem}


@pytest.mark.parametrize("case", labelled(NARROW))
def test_fp8_is_refused(case: Case) -> None:
    with pytest.raises(PlanError, match="no word for linear layers in fp8"):
        case.written(deepspeed)


def test_what_it_does_not_overlap_has_its_price() -> None:
    case = Case(model="llama-8b", cluster="2x8xH100", pp=2, tp=4, zero=1, tp_overlap=True)
    (note,) = [note for note in case.written(deepspeed).notes if "behind them" in note]
    slower = float(note.rpartition("takes ")[2].partition(" %")[0])
    assert 1 < slower < 40
